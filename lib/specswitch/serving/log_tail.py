"""A server's log file: its last lines, bounded, whatever its size; and no secrets in what stays of it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
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


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret replaced by as many asterisks, so that no position moves."""
    for secret in secrets:
        text = text.replace(secret, "*" * len(secret))
    return text


def mask(path: Path, secrets: Iterable[str]) -> None:
    """The same in a file that nobody writes any more: the engine writes its whole command line into its log.

    Bytes keep their places. A file that is gone or cannot be written stays as it is.
    """
    known = [s.encode() for s in secrets if s]
    if not known:
        return
    with suppress(OSError), open(path, "r+b") as f:
        content = before = f.read()
        for secret in known:
            content = content.replace(secret, b"*" * len(secret))
        if content != before:
            f.seek(0)
            f.write(content)
