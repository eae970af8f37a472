"""Taking this machine out of a text: absolute paths, the home folder, the checkout."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from specswitch.config import project_root

# An absolute path of at least two parts, not inside a URL or a word; also `~/...` and a Windows drive.
_POSIX = re.compile(r"(?<![\w.:/~…-])~?/(?:[^\s/'\"`:;,<>()\[\]{}=|&]+/)+([^\s/'\"`:;,<>()\[\]{}=|&]*)")
_WINDOWS = re.compile(r"\b[A-Za-z]:\\(?:[^\s\\'\"<>|]+\\)*([^\s\\'\"<>|]*)")


def scrub(text: str) -> str:
    """`text` with every absolute path cut down to `…/` and its last part."""
    for folder in known_folders():
        text = text.replace(f"{folder}/", "…/").replace(folder, "…")
    text = _POSIX.sub(_last_part, text)
    return _WINDOWS.sub(_last_part, text)


def absolute_paths(text: str) -> list[str]:
    """The absolute paths in `text`, in order; empty for a text that tells nothing of the machine."""
    known = [folder for folder in known_folders() if folder in text]
    return known + [m.group(0) for pattern in (_POSIX, _WINDOWS) for m in pattern.finditer(text)]


def known_folders() -> list[str]:
    """The home folder and the checkout, longest first (spaces and accents in them are no matter)."""
    folders = {str(Path.home())}
    with suppress(FileNotFoundError):  # installed without a checkout
        folders.add(str(project_root()))
    return sorted((f for f in folders if f != "/"), key=len, reverse=True)


def _last_part(found: re.Match[str]) -> str:
    return f"…/{found.group(1)}" if found.group(1) else "…"
