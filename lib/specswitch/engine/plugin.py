"""General plugin of SGLang (entry-point group `sglang.srt.plugins`)."""

from __future__ import annotations


def register() -> None:
    """Called by SGLang's plugin loader in every process of a server."""
