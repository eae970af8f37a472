"""One writer per run folder: two runs at once must never mix their points."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specswitch.results.files import saying_why
from specswitch.results.layout import LOCK, ResultsError

# `is_locked` holds the lock for an instant; a writer must not take that for another writer.
PATIENCE_S = 0.3


class BusyError(ResultsError):
    """Another process writes into this run folder."""


@contextmanager
def locked(folder: Path, name: str = LOCK, busy: str = "") -> Iterator[None]:
    """Hold the exclusive lock `name` of an existing run folder.

    The system frees it when the process ends, however it ends, so there is no stale lock to clear away.
    `busy`: what others are told while it is held (default: the folder is being written).

    Raises:
        BusyError: another process holds it; the message names its process id.
        ResultsError: the lock file cannot be written.
    """
    path = folder / name
    with saying_why(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(handle, folder, busy or f"writing into {folder}: wait for it, or choose another output folder")
        with saying_why(path):
            os.truncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def is_locked(folder: Path, name: str = LOCK) -> bool:
    """Whether a process holds the lock now. Writes nothing."""
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(handle)
    return False


def _take(handle: int, folder: Path, busy: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as problem:
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResultsError(f"cannot lock {folder}: {problem}") from problem
            if time.monotonic() > deadline_s:
                holder = os.pread(handle, 20, 0).decode(errors="replace") or "unknown"
                raise BusyError(f"another run (process {holder}) is {busy}") from problem
        time.sleep(0.02)
