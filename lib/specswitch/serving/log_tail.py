"""The last lines of a server's log file, bounded, whatever the size of the file."""

from __future__ import annotations

from pathlib import Path

MAX_BYTES = 16_384


def log_tail(path: Path | None, lines: int = 30) -> str:
    """At most the last `lines` lines (and 16 KiB) of the file; empty if there is none."""
    if path is None:
        return ""
    try:
        with open(path, "rb") as f:
            f.seek(0, 2)
            start = max(0, f.tell() - MAX_BYTES)
            f.seek(start)
            text = f.read(MAX_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    found = text.splitlines()
    if start > 0:
        found = found[1:]  # the first one is cut
    return "\n".join(found[-lines:])
