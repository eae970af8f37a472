"""A server's own folder for temporary files, which goes when the server goes: the engine leaves its sockets' names.

Standard library only: the supervisor imports this.
"""

from __future__ import annotations

import getpass
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

PREFIX = "specswitch-server-"
# Linux takes 107 bytes for the path of a socket; the engine's names in this folder need 12.
LONGEST = 95
SHORT = "/tmp"


def make() -> Path | None:
    """A new, private folder: where temporary files go, or in /tmp where the path would be too long for a socket.

    None where neither does, which leaves the engine with what this process has.
    """
    for parent in (tempfile.gettempdir(), SHORT):
        try:
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError:
            continue
        if len(os.fsencode(folder)) <= LONGEST:
            return folder
        folder.rmdir()
    return None


def environment(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """A server's environment with its temporary files in `folder`.

    What a GPU server compiles is worth keeping for the next one: it stays where it would be without the folder.
    """
    kept: dict[str, str] = {}
    if values.get("SPECSWITCH_CPU") != "1":
        shared, user = Path(tempfile.gettempdir()), _user()
        kept["TORCHINDUCTOR_CACHE_DIR"] = str(shared / f"torchinductor_{user}")
        kept["CUTE_DSL_CACHE_DIR"] = str(shared / user / "cutlass_python_cache")
    return {**kept, **values, "TMPDIR": str(folder)}


def remove(folder: str | Path | None) -> None:
    """Remove the folder of a server that has ended; anything else is left alone."""
    if folder is not None and Path(folder).name.startswith(PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return str(os.getuid())
