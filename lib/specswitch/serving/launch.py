"""Start one server from a configuration, prove that it is the right one, and take it down without a trace.

with launch(cfg, run_dir / "server.log") as server:
    server.set_rule(threshold=8)
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from specswitch.config import ServerConfig
from specswitch.serving import control, gpus, leftovers, port, readiness
from specswitch.serving.argv import redact
from specswitch.serving.process import ServerProcess
from specswitch.serving.spec import LaunchSpec, spec_from_config

logger = logging.getLogger(__name__)


class Server:
    """A running server that proved its identity. A context manager; `close` may be called any number of times."""

    def __init__(
        self, spec: LaunchSpec, process: ServerProcess, identity: dict[str, Any], free_before: list[gpus.Gpu]
    ) -> None:
        self.url = spec.url
        self.port = spec.port
        self.argv = redact(spec.argv)
        self.env_record = spec.environment.record()
        self.identity = identity
        self._spec = spec
        self._process = process
        self._free_before = free_before
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Pid of the server's main process."""
        return self._process.pid

    @property
    def api_key(self) -> str | None:
        """What its clients must send; None where it asks for nothing."""
        return self._spec.api_key

    @property
    def log_path(self) -> Path | None:
        """Where standard output and error of all its processes go."""
        return self._process.log_path

    @property
    def exit_code(self) -> int | None:
        """None while the server runs."""
        return self._process.poll()

    def raise_if_exited(self) -> None:
        """Raises ServerExitedError, with the end of the log, if the server has died."""
        self._process.raise_if_exited("while it was in use")

    def info(self) -> dict[str, Any]:
        """Everything that /server_info answers."""
        return control.server_info(self.url, api_key=self._spec.api_key)

    def state(self) -> dict[str, Any]:
        """Rule, path, mode and counters now, from inside the scheduler."""
        return control.read_state(self.url, api_key=self._spec.api_key)

    def set_rule(self, **changes: Any) -> dict[str, Any]:
        """Change threshold, enable_threshold, dwell or sync; returns the state read back. See `control.set_rule`."""
        return control.set_rule(self.url, api_key=self._spec.api_key, **changes)

    def flush(self, timeout_s: float = 30.0) -> None:
        """Empty the prefix cache, once the server is idle."""
        control.flush_cache(self.url, api_key=self._spec.api_key, timeout_s=timeout_s)

    def smoke_accept_length(self, least: float = 1.05) -> float | None:
        """Accept length of one short answer. Raises DraftMismatchError below `least`; None if nothing was verified."""
        return readiness.smoke_accept_length(self.url, least, api_key=self._spec.api_key)

    def wait(self) -> int:
        """Wait for the server's own end; returns its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """Stop it; returns when its processes are gone, its port is free and its GPU memory is back."""
        if self._closed:
            return
        self._process.stop()
        self._closed = True
        if not port.wait_until_free(self._spec.host, self.port):
            logger.warning("Port %d is still taken after the server's end", self.port)
        if self._spec.cuda:
            gpus.wait_until_released(self._free_before)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def launch(
    cfg: ServerConfig,
    log_path: Path,
    *,
    steps_dir: Path | None = None,
    on_process: Callable[[ServerProcess], object] | None = None,
) -> Server:
    """Start the server that `cfg` describes and wait until it is ready. It ends with the object returned.

    Args:
        cfg: the configuration; everything about it is checked before anything is started.
        log_path: file for the output of all its processes; appended to.
        steps_dir: directory for the per-step records; None for none.
        on_process: gets the process as soon as there is one. Stopping it, from any thread, ends the wait with
            ServerExitedError.

    Raises:
        PreflightError: something asked for cannot work; nothing was started.
        ServerExitedError, ReadyTimeoutError: it did not come up; nothing is left running.
        IdentityError: another path, worker or rule than asked; nothing is left running.
    """
    spec = spec_from_config(cfg, log_path, steps_dir)
    return start(spec, log_path, on_process)


def start(
    spec: LaunchSpec, log_path: Path | None, on_process: Callable[[ServerProcess], object] | None = None
) -> Server:
    """Start what `spec` says and wait until it is ready. Raises as `launch`, but for PreflightError."""
    killed = leftovers.clean()
    if killed:
        logger.warning("Removed processes %s that an earlier run had left behind", killed)
    free_before = gpus.list_gpus() if spec.cuda else []
    process = ServerProcess(spec.argv, spec.environment.values, log_path, spec.expected.nonce)
    with contextlib.ExitStack() as undo:
        undo.callback(process.stop)
        if on_process is not None:
            on_process(process)
        identity = readiness.wait_until_ready(
            process, spec.url, spec.expected, spec.ready_timeout_s, spec.api_key
        )
        undo.pop_all()
    return Server(spec, process, identity, free_before)
