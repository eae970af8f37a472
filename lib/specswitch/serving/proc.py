"""Processes by pid *and* start time, read from /proc. Standard library only: the supervisor imports this.

A pid alone can be reused; the pair (pid, start time in clock ticks since boot) cannot within one boot.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Process(NamedTuple):
    """One process for certain: `start` is in clock ticks since boot."""

    pid: int
    start: int


class Stat(NamedTuple):
    """The few fields of /proc/PID/stat that matter here."""

    process: Process
    ppid: int
    ended: bool  # a zombie without threads; while threads are left it holds its files and ports


def read_stat(pid: int) -> Stat | None:
    """The process's state now; None if there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name in parentheses may itself hold blanks
    ended = fields[0] == "Z" and int(fields[17]) <= 1
    return Stat(Process(pid, int(fields[19])), int(fields[1]), ended)


def identify(pid: int) -> Process | None:
    """The running process that has this pid now; None if there is none, or only its zombie is left."""
    stat = read_stat(pid)
    return None if stat is None or stat.ended else stat.process


def alive(process: Process) -> bool:
    """Whether exactly this process still runs. A zombie does not."""
    return identify(process.pid) == process


def descendants(root: int) -> list[Process]:
    """Every living process below `root`, nearest first, in whatever session or group it is."""
    children: dict[int, list[Stat]] = {}
    for name in os.listdir(PROC):
        if name.isdigit() and (stat := read_stat(int(name))) is not None:
            children.setdefault(stat.ppid, []).append(stat)
    found: list[Process] = []
    level = [root]
    while level:
        stats = [s for pid in level for s in children.pop(pid, ())]
        found += [s.process for s in stats if not s.ended]
        level = [s.process.pid for s in stats]
    return found


def send(process: Process, signum: signal.Signals) -> None:
    """Send a signal to exactly this process; does nothing if it is gone or not ours to signal."""
    if alive(process):
        try:
            os.kill(process.pid, signum)
        except (ProcessLookupError, PermissionError):
            return


def boot_and_namespace() -> str:
    """Where (pid, start) pairs are valid: this boot and this pid namespace."""
    boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {os.readlink(PROC / 'self/ns/pid')}"
