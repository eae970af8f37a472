"""Semaphores and shared memory that killed processes leave in /dev/shm: found while they run, removed afterwards.

Python's own resource tracker would do it, but the engine kills that one too. Standard library only: the supervisor
imports this.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from specswitch.serving.proc import PROC

FOLDER = Path("/dev/shm")
# multiprocessing's semaphores and shared memory, torch's and NCCL's.
KINDS = ("sem.mp-", "psm_", "torch_", "nccl-")
# The inode counts: a semaphore is mapped under a temporary name, which is gone at once.
_MAPPED = re.compile(rf" (\d+) +{FOLDER}/", re.MULTILINE)


def inodes() -> frozenset[int]:
    """The inodes of all files of these kinds, whoever made them."""
    try:
        return frozenset(entry.inode() for entry in os.scandir(FOLDER) if entry.name.startswith(KINDS))
    except OSError:  # no such folder: nothing is shared through it
        return frozenset()


def mapped_by(pids: Iterable[int]) -> dict[Path, int]:
    """The files of these kinds that any of the processes has mapped, and their inodes."""
    mapped = _mapped_inodes(pids)
    found: dict[Path, int] = {}
    for entry in os.scandir(FOLDER) if mapped else ():
        if entry.name.startswith(KINDS) and entry.inode() in mapped:
            found[Path(entry.path)] = entry.inode()
    return found


def remove_unused(files: dict[Path, int]) -> None:
    """Remove those of the files that are still the same, this user's, and mapped by no process any more."""
    if not files:
        return
    in_use = _mapped_inodes(int(name) for name in os.listdir(PROC) if name.isdigit())
    for file, inode in files.items():
        with contextlib.suppress(OSError):
            found = file.lstat()
            if found.st_ino == inode and inode not in in_use and found.st_uid == os.getuid():
                file.unlink()


def _mapped_inodes(pids: Iterable[int]) -> set[int]:
    mapped: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            maps = (PROC / str(pid) / "maps").read_text(encoding="utf-8", errors="replace")
            mapped.update(map(int, _MAPPED.findall(maps)))
    return mapped
