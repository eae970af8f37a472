"""One writer per run folder: two runs at once must never mix their points. And one measurement per GPU host."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from specswitch.results.files import saying_why
from specswitch.results.layout import LOCK, ResultsError

# `is_locked` holds the lock for an instant; a writer must not take that for another writer.
PATIENCE_S = 0.3


class BusyError(ResultsError):
    """Another process writes into this run folder."""


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold the exclusive lock `name` of an existing run folder.

    The system frees it when the process ends, however it ends, so there is no stale lock to clear away.

    Raises:
        BusyError: another process holds it; the message names its process id.
        ResultsError: the lock file cannot be written.
    """
    path = folder / name
    with saying_why(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _take(handle, folder, f"writing into {folder}: wait for it, or choose another output folder")
        with saying_why(path):
            _sign(handle)
        yield
    finally:
        os.close(handle)


@contextmanager
def locked_for_all_users(path: Path, busy: str) -> Iterator[None]:
    """Hold the exclusive lock `path`, which users of one machine share; the file stays, so that all lock the same.

    Whoever comes first makes it readable and writable for everybody. A file that an owner keeps from being written
    is locked all the same, only without our process id in it. `busy`: what others are told while it is held.

    Raises:
        BusyError: another process holds it; the message names its process id where that is known.
        ResultsError: the lock file can be neither made nor read; the message names it and the cure.
    """
    try:
        handle, ours_to_sign = _open_shared(path)
    except OSError as problem:
        raise ResultsError(
            f"cannot open the lock file {path}, which all users of this machine share: "
            f"{os.strerror(problem.errno or 0)}: have its owner (`ls -l {path}`) run `chmod 666 {path}`, or let "
            f"TMPDIR name the same writable folder for all who measure here"
        ) from problem
    try:
        _take(handle, path, busy)
        if ours_to_sign:
            with saying_why(path):
                _sign(handle)
        yield
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether a process writes into this run folder now. Writes nothing."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(handle)
    return False


def _open_shared(path: Path) -> tuple[int, bool]:
    """The open lock file, and whether it can be written. Never follows a link that somebody laid there.

    An existing file is opened without O_CREAT: in a folder like /tmp the system refuses that for others' files.
    """
    safely = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | safely, 0o666)
    except FileExistsError:
        try:
            return os.open(path, os.O_RDWR | safely), True
        except PermissionError:
            return os.open(path, os.O_RDONLY | safely), False
    os.fchmod(handle, 0o666)  # whatever the umask says
    return handle, True


def _sign(handle: int) -> None:
    os.truncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)


def _take(handle: int, at: Path, busy: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as problem:
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResultsError(f"cannot lock {at}: {problem}") from problem
            if time.monotonic() > deadline_s:
                raise BusyError(f"another run (process {_holder(handle)}) is {busy}") from problem
        time.sleep(0.02)


def _holder(handle: int) -> str:
    """The process id in the lock file; `unknown` where its process is gone: a later holder could not write its own."""
    signed = os.pread(handle, 20, 0).decode(errors="replace")
    return signed if signed.isdecimal() and psutil.pid_exists(int(signed)) else "unknown"
