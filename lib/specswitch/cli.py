"""The `specswitch` command: thin, every verb calls into the library."""

from __future__ import annotations

import click


@click.group()
def main() -> None:
    """A workbench for dynamic speculation disable with EAGLE-3 in SGLang."""
