"""Specswitch: a workbench for dynamic speculation disable with EAGLE-3 in SGLang."""

__version__ = "0.1.0"
