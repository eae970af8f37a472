"""A small process between us and the server, so that the server never outlives us.

    python -P -m specswitch.serving.supervisor RECORD OWNER_PID GRACE_S -- COMMAND...

It runs COMMAND in a session of its own and ends when the command ends, when its standard input is closed,
when its parent (OWNER_PID) is gone however it died, or on SIGTERM; it always takes the whole process tree with
it. It is the subreaper of the tree: grandchildren that were orphaned or started their own session become its
children, so none is lost, and nothing is ever looked up by name. Each process seen is written to RECORD with its
start time, for `leftovers` in case the supervisor itself is killed. The folder of temporary files that RECORD names
goes with the tree, and what the tree leaves in /dev/shm. Linux, standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from specswitch.serving import leftovers, proc, scratch, shared_memory

PR_SET_CHILD_SUBREAPER = 36
TICK_S = 0.1
SNAPSHOT_S = 1.0
OWNER_GONE_GRACE_S = 3.0
ORPHAN_GRACE_S = 1.0
KILL_DEADLINE_S = 15.0


def write_record(path: Path, record: dict) -> None:
    """Write the record as JSON, atomically: a reader sees the old or the new one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w", encoding="utf-8") as f:
        json.dump(record, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(temporary, path)


def become_subreaper() -> None:
    """Orphans below this process re-parent to it from now on. Raises OSError where that is not possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(
            ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed: Linux 3.4 or newer is needed"
        )


class Supervisor:
    """State of one supervised command. `exit_code` is None while the command runs; negative = by a signal."""

    def __init__(self, record_path: Path, owner: int, grace_s: float) -> None:
        self.record_path = record_path
        self.owner = owner
        self.grace_s = grace_s
        self.command: proc.Process | None = None
        self._pid: int | None = None  # of the command, also when it is too short-lived to be identified
        self.exit_code: int | None = None
        self.stop_reason: str | None = None
        self._known: list[proc.Process] = []
        self._shared: dict[Path, int] = {}  # in /dev/shm, with inodes
        self._in_shm: list[frozenset[int]] = [frozenset()] * 2  # all there, of anybody: the last two looks
        self._next_snapshot_s = 0.0

    def run(self, argv: list[str]) -> int:
        """Run the command to its end or ours. Returns its exit code, 128 + n for signal n."""
        become_subreaper()
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_signal)
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as e:
            self._say(f"cannot start {argv[0]}: {e}")
            self.exit_code = 127
        else:
            self._pid = child.pid
            self.command = proc.identify(child.pid)
            self._known = [self.command] if self.command else []
            self._save()
            self._watch()
        self._note_shared()
        self._end()
        self._clear_up()
        self._save()
        code = self.exit_code if self.exit_code is not None else -signal.SIGKILL
        return code if code >= 0 else 128 - code

    def _watch(self) -> None:
        while self.exit_code is None and self.stop_reason is None:
            self._wait_a_tick()
            self._reap()
            if time.monotonic() >= self._next_snapshot_s:
                self._snapshot()

    def _wait_a_tick(self) -> None:
        readable, _, _ = select.select([0], [], [], TICK_S)
        if readable and not os.read(0, 4096):
            self.stop_reason = self.stop_reason or "as asked"
        if os.getppid() != self.owner:
            self.stop_reason = "its owner is gone"

    def _reap(self) -> None:
        """Collect every dead child, adopted ones too; remember how the command itself ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def _snapshot(self) -> None:
        self._next_snapshot_s = time.monotonic() + SNAPSHOT_S
        before, last = self._in_shm
        in_shm = shared_memory.inodes()
        self._in_shm = [last, in_shm]
        now = proc.descendants(os.getpid())
        # Also one look after a change: a file is made before it is mapped.
        if now != self._known or in_shm != last or last != before:
            self._note_shared()
        if now != self._known:
            self._known = now
            self._save()

    def _note_shared(self) -> None:
        self._shared |= shared_memory.mapped_by(p.pid for p in proc.descendants(os.getpid()))

    def _clear_up(self) -> None:
        """The tree is gone: so go its temporary files and its shared memory."""
        shared_memory.remove_unused(self._shared)
        scratch.remove(self._record().get("scratch"))

    def _end(self) -> None:
        """Leave nothing below us: SIGTERM, wait, SIGKILL until the tree is empty."""
        if self.stop_reason is None:
            first, grace_s = proc.descendants(os.getpid()), 0.0
        else:
            first = [self.command] if self.command else []
            grace_s = OWNER_GONE_GRACE_S if os.getppid() != self.owner else self.grace_s
            self._say(f"stopping the server, {self.stop_reason}")
        for process in first:
            proc.send(process, signal.SIGTERM)
        self._wait_until(self._command_is_gone, grace_s)
        if self._wait_until(self._tree_is_empty, ORPHAN_GRACE_S):
            return
        if not self._wait_until(self._kill_all, KILL_DEADLINE_S):
            left = [p.pid for p in proc.descendants(os.getpid())]
            self._say(f"could not kill {left} within {KILL_DEADLINE_S:g} s")

    def _command_is_gone(self) -> bool:
        self._reap()
        return self.exit_code is not None

    def _tree_is_empty(self) -> bool:
        self._reap()
        return not proc.descendants(os.getpid())

    def _kill_all(self) -> bool:
        for process in proc.descendants(os.getpid()):
            proc.send(process, signal.SIGKILL)
        return self._tree_is_empty()

    @staticmethod
    def _wait_until(done: Callable[[], bool], timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.05)
        return True

    def _on_signal(self, signum: int, _frame: FrameType | None) -> None:
        self.stop_reason = f"signal {signum}"

    def _save(self) -> None:
        record = self._record() | {
            "supervisor": proc.identify(os.getpid()),
            "command": self.command,
            "processes": self._known,
            "exit_code": self.exit_code,
        }
        try:
            write_record(self.record_path, record)
        except OSError as e:
            self._say(f"cannot write {self.record_path}: {e}")

    def _record(self) -> dict:
        try:
            return dict(json.loads(self.record_path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    @staticmethod
    def _say(text: str) -> None:
        line = f"[specswitch supervisor] {text}\n"
        with contextlib.suppress(OSError):  # a full disk must not keep the tree alive
            os.write(2, line.encode("utf-8", "backslashreplace"))


def main(argv: list[str]) -> int:
    """Entry point; argv as in the module's docstring."""
    record, owner, grace_s, dashes, *command = argv
    if dashes != "--" or not command:
        raise SystemExit("usage: supervisor RECORD OWNER_PID GRACE_S -- COMMAND...")
    supervisor = Supervisor(Path(record), int(owner), float(grace_s))
    code = supervisor.run(command)
    if os.getppid() != supervisor.owner:
        leftovers.forget(supervisor.record_path)  # nobody is left to read it
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
