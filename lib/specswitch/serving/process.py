"""One supervised server process: started into a log file, polled, stopped, never left behind.

The supervisor (see `supervisor`) does the killing; here its life is tied to ours. However this process ends,
with `stop`, at interpreter exit or by kill -9, the supervisor's standard input closes and the tree goes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specswitch.serving import leftovers, scratch
from specswitch.serving.argv import secrets_in
from specswitch.serving.errors import ServerExitedError
from specswitch.serving.log_tail import log_tail, mask, masked
from specswitch.serving.supervisor import KILL_DEADLINE_S, write_record

GRACE_S = 6.0  # the engine looks at SIGTERM every 5 s

_running: weakref.WeakSet[ServerProcess] = weakref.WeakSet()
_stopping: set[ServerProcess] = (
    set()
)  # held, so that an interrupted wait is taken up again at interpreter exit


class ServerProcess:
    """A command under supervision. `pid`: the command's own, None if it never started.

    `log_path` None: the command writes to our own standard output and error.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        log_path: Path | None,
        nonce: str,
        grace_s: float = GRACE_S,
    ) -> None:
        """Start it, with a folder for temporary files that ends with it. Raises OSError without a log file."""
        self.argv = list(argv)
        self.log_path = log_path
        self._grace_s = grace_s
        self._owner_pid = os.getpid()
        self._exit_code: int | None = None
        self._pid: int | None = None
        self._record_path, record = leftovers.new_record(nonce)
        command = [sys.executable, "-P", "-m", "specswitch.serving.supervisor"]
        command += [str(self._record_path), str(os.getpid()), f"{grace_s:g}", "--", *argv]
        folder = scratch.make()
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as undo:
            undo.callback(scratch.remove, folder)
            undo.callback(leftovers.forget, self._record_path)
            log = stack.enter_context(open(log_path, "ab")) if log_path is not None else None
            record |= {"scratch": None if folder is None else str(folder)}
            try:
                write_record(self._record_path, record)
            except FileNotFoundError:  # another run has just ended and taken the empty directory away
                leftovers.record_dir()
                write_record(self._record_path, record)
            self._supervisor = subprocess.Popen(
                command,
                env=dict(env) if folder is None else scratch.environment(env, folder),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            undo.pop_all()
        _running.add(self)

    @property
    def pid(self) -> int | None:
        """Pid of the command; None before it is known or if it never started."""
        if self._pid is None:
            self._note_pid(leftovers.read_record(self._record_path) or {})
        return self._pid

    def poll(self) -> int | None:
        """None while the server runs, else its exit code (negative: killed by that signal)."""
        if self._exit_code is None and self._supervisor.poll() is not None:
            self._exit_code = self._final_exit_code()
        return self._exit_code

    def log_tail(self) -> str:
        """The last lines of the log; empty if there is no log file."""
        return masked(log_tail(self.log_path), secrets_in(self.argv))

    def raise_if_exited(self, when: str) -> None:
        """Raise ServerExitedError, saying `when`, if the process is gone."""
        code = self.poll()
        if code is not None:
            log_path = None if self.log_path is None else str(self.log_path)
            raise ServerExitedError(code, self.log_tail(), when, log_path)

    def wait(self) -> int:
        """Wait for the server's own end; returns its exit code."""
        while (code := self.poll()) is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._supervisor.wait(0.2)
        return code

    def stop(self) -> None:
        """End the server and everything below it; returns when they are gone. Safe to call again.

        An interrupt while waiting does no harm: the supervisor was told already and goes on alone, and this
        interpreter waits for it before it exits.
        """
        _stopping.add(self)
        if self._supervisor.stdin is not None and not self._supervisor.stdin.closed:
            self._supervisor.stdin.close()
        try:
            self._supervisor.wait(self._grace_s + KILL_DEADLINE_S + 5.0)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            self._supervisor.wait()
        self.poll()
        if self.log_path is not None:
            mask(self.log_path, secrets_in(self.argv))
        _running.discard(self)
        _stopping.discard(self)

    def _final_exit_code(self) -> int:
        """The command's exit code from the record; a supervisor that was killed leaves the rest to us."""
        record = leftovers.read_record(self._record_path) or {}
        self._note_pid(record)
        code = record.get("exit_code")
        if code is None:
            leftovers.kill_recorded(record)
            scratch.remove(record.get("scratch"))
            code = self._supervisor.returncode
        leftovers.forget(self._record_path)
        return int(code)

    def _note_pid(self, record: dict[str, Any]) -> None:
        command = record.get("command")
        if command is not None:
            self._pid = command[0]


def _stop_all() -> None:
    """At interpreter exit: tell all supervisors first, then wait for each."""
    mine = [p for p in {*_running, *_stopping} if p._owner_pid == os.getpid()]  # not those a fork inherited
    for process in mine:
        if process._supervisor.stdin is not None:
            process._supervisor.stdin.close()
    for process in mine:
        process.stop()


atexit.register(_stop_all)
