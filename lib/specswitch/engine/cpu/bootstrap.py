"""Early entry of the CPU reference platform (entry-point group `sglang.srt.platforms`)."""

from __future__ import annotations


def activate() -> None:
    """Return None: no out-of-tree platform is claimed."""
