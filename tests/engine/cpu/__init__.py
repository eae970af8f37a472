"""Tests of the CPU reference platform."""
