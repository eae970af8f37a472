"""Records of running servers, and the removal of what a killed supervisor left behind.

Each server has one JSON file in a private directory of this user: its owner, its supervisor and every process
of its tree, each with pid and start time. Only processes listed in our own records are ever signalled, and only
if the start time still matches.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from specswitch.serving import proc, scratch, shared_memory

logger = logging.getLogger(__name__)

KILL_DEADLINE_S = 15.0


def record_dir() -> Path:
    """The private directory of server records; made on first use.

    Raises:
        PermissionError: something of another user lies in its place.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        path = Path(runtime) / "specswitch"
    else:
        path = Path(tempfile.gettempdir()) / f"specswitch-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{path} is not a directory of this user: remove it or set TMPDIR")
    return path


def new_record(nonce: str) -> tuple[Path, dict[str, Any]]:
    """Path and first content of the record of a server about to be started by this process."""
    content: dict[str, Any] = {
        "nonce": nonce,
        "valid_in": proc.boot_and_namespace(),
        "owner": proc.identify(os.getpid()),
        "supervisor": None,
        "processes": [],
        "exit_code": None,
        "scratch": None,
    }
    return record_dir() / f"{nonce}.json", content


def forget(path: Path) -> None:
    """Remove a record, and the directory with the last one."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # others are in it, or it is gone
        path.parent.rmdir()


def clean() -> list[int]:
    """Kill what is left of servers whose supervisor is dead, remove their temporary files. Returns the pids killed."""
    killed: list[int] = []
    here = proc.boot_and_namespace()
    for path in sorted(record_dir().glob("*.json")):
        record = read_record(path)
        if record is None:
            continue
        valid_in = record.get("valid_in", "")
        if valid_in.split()[:1] != here.split()[:1]:
            scratch.remove(record.get("scratch"))  # from before the last boot: nothing of it can live
            forget(path)
        elif valid_in == here and not _held(record):
            killed += kill_recorded(record)
            scratch.remove(record.get("scratch"))
            forget(path)
    return killed


def kill_recorded(record: dict[str, Any]) -> list[int]:
    """SIGKILL every process of the record, and what descends from them, until none is left.

    Their shared memory goes with them. Returns the pids. A process that cannot be killed in time is named in a warning.
    """
    listed = [proc.Process(*p) for p in record.get("processes", ())]
    found = [p for p in listed if proc.alive(p)]
    below = [d for p in found for d in proc.descendants(p.pid)]
    doomed = list(dict.fromkeys(found + below))
    shared = shared_memory.mapped_by(p.pid for p in doomed)
    for process in doomed:
        proc.send(process, signal.SIGKILL)
    deadline_s = time.monotonic() + KILL_DEADLINE_S
    while (left := [p.pid for p in doomed if proc.alive(p)]) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    if left:
        logger.warning("Processes %s of an earlier server did not go away", left)
    shared_memory.remove_unused(shared)
    return [p.pid for p in doomed]


def read_record(path: Path) -> dict[str, Any] | None:
    """The record, or None if it is gone, damaged or not an object."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _held(record: dict[str, Any]) -> bool:
    """Whether somebody looks after this server: its supervisor, or an owner that has yet to act.

    An owner that lives has yet to start the supervisor (none is recorded) or to read the exit code.
    """
    supervisor, owner = record.get("supervisor"), record.get("owner")
    if supervisor is not None and proc.alive(proc.Process(*supervisor)):
        return True
    owner_acts = supervisor is None or record.get("exit_code") is not None
    return owner_acts and owner is not None and proc.alive(proc.Process(*owner))
