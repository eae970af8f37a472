"""Writing a file so that a reader sees all of it or nothing, and saying in plain words when that fails."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from specswitch.results.layout import ResultsError

# A default run stores about 10 MB; below this a run would stop half-way.
MIN_FREE_BYTES = 64 * 1024 * 1024

_CURES = {
    errno.ENOSPC: "the disk is full: free some space, or choose another output folder",
    errno.EDQUOT: "the disk quota is used up: free some space, or choose another output folder",
    errno.EROFS: "the file system is read-only: choose another output folder",
    errno.EACCES: "no permission to write there: choose another output folder",
    errno.EPERM: "no permission to write there: choose another output folder",
    errno.EISDIR: "it is a folder: name a file in it, or another one",
    errno.ENOTDIR: "a part of this path is a file, not a folder: choose another output folder",
}


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path` through a temporary file in the same folder, synced to the disk.

    Raises:
        ResultsError: it could not be written; then `path` is as it was and no temporary file is left.
    """
    with saying_why(path):
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(scratch, 0o644)
            os.replace(scratch, path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data` as readable JSON, atomically. A NaN or infinity in it is an error (ValueError)."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    # Undecodable bytes of a file name are held as surrogates; they go out as the bytes that they were.
    write_atomically(path, f"{text}\n".encode("utf-8", "surrogateescape"))


def make_folder(path: Path) -> None:
    """Create `path` with its parents; an existing folder is fine. Raises ResultsError."""
    with saying_why(path):
        path.mkdir(parents=True, exist_ok=True)


def check_writable(folder: Path) -> None:
    """Make sure that `folder` (or, while it does not exist, its nearest parent) takes files and has space.

    Writes and removes one small file; creates no folder. Raises ResultsError.
    """
    with saying_why(folder):
        existing = next(p for p in (folder, *folder.parents) if p.exists())
        with tempfile.NamedTemporaryFile(prefix=".writable.", dir=existing) as probe:
            probe.write(b"x" * 4096)
            probe.flush()
            os.fsync(probe.fileno())
        free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        raise ResultsError(
            f"cannot write {folder}: only {free // 2**20} MiB are free, a run needs at least "
            f"{MIN_FREE_BYTES // 2**20}: free some space, or choose another output folder"
        )


def check_file(path: Path) -> None:
    """Make sure that a file `path` can be written beside what is there; leaves nothing. Raises ResultsError."""
    with saying_why(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass


@contextmanager
def saying_why(path: Path) -> Iterator[None]:
    """Turn an OSError of the body into a ResultsError that names `path` and the cure."""
    try:
        yield
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        cure = _CURES.get(problem.errno or 0, "choose another output folder")
        raise ResultsError(f"cannot write {path}: {reason}: {cure}") from problem
