"""Tests of what runs inside SGLang's processes."""
