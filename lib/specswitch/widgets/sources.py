"""Where a live session's server comes from: started here, or running already at some URL."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from specswitch.config import ServerConfig, project_root
from specswitch.results.files import make_folder
from specswitch.serving import control
from specswitch.serving.launch import Server, launch
from specswitch.serving.process import ServerProcess
from specswitch.sweep.parameters import SweepParameters
from specswitch.widgets.attached import parameters_of, path_of
from specswitch.widgets.parameters import Kind

LOOK_TIMEOUT_S = 5.0


class CancelledError(RuntimeError):
    """Stop was asked for before the server was up."""


class Source(Protocol):
    """A server for one session. `open` blocks; `cancel` may come from another thread at any time.

    `base`: parameters of model and server; `path`: how it runs. Both are right once `open` has returned.
    `words`: what is being opened, for the user.
    """

    base: SweepParameters
    path: Kind
    words: str

    @property
    def url(self) -> str:
        """Base URL, once open."""
        ...

    @property
    def api_key(self) -> str | None:
        """What its clients must send, if anything; once open."""
        ...

    def open(self) -> None:
        """Return when the server serves. Raises ServingError, CancelledError, OSError."""
        ...

    def cancel(self) -> None:
        """Make `open`, or whatever waits for the server, end soon."""
        ...

    def state(self) -> dict[str, Any]:
        """The server's report now."""
        ...

    def set_rule(self, **changes: Any) -> dict[str, Any]:
        """As `control.set_rule`."""
        ...

    def raise_if_exited(self) -> None:
        """Raise ServerExitedError where we know that its process is gone."""
        ...

    def close(self) -> None:
        """Leave it: what was started here ends, what ran before goes on."""
        ...


class Launched:
    """A server that the panel starts and ends. Its log lies under `reports/live-*/`."""

    def __init__(self, config: ServerConfig, base: SweepParameters, path: Kind) -> None:
        self.base, self.path = base, path
        stamp = f"live-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.log_path: Path = project_root() / "reports" / stamp / "server.log"
        self.words = f"Starting a server ({path}, {config.device}); its log: {self.log_path}"
        self._config = config
        self._cancelled = threading.Event()
        self._process: ServerProcess | None = None
        self._server: Server | None = None

    @property
    def url(self) -> str:
        """Base URL. RuntimeError before `open`."""
        return self._open_server().url

    @property
    def api_key(self) -> str | None:
        """From SPECSWITCH_API_KEY at its start. RuntimeError before `open`."""
        return self._open_server().api_key

    def open(self) -> None:
        """Start it and wait until it is ready and its draft has been right at least sometimes."""
        if self._cancelled.is_set():
            raise CancelledError("stopped before the start")
        make_folder(self.log_path.parent)
        self._server = launch(self._config, self.log_path, on_process=self._hold)
        if self._config.path != "none" and not self._config.synthetic:
            self._server.smoke_accept_length()

    def cancel(self) -> None:
        """Stop the process, ready or not."""
        self._cancelled.set()
        if self._process is not None:
            self._process.stop()

    def state(self) -> dict[str, Any]:
        """The server's report now."""
        return control.read_state(self.url, api_key=self.api_key, timeout_s=LOOK_TIMEOUT_S)

    def set_rule(self, **changes: Any) -> dict[str, Any]:
        """As `control.set_rule`."""
        return control.set_rule(self.url, api_key=self.api_key, timeout_s=LOOK_TIMEOUT_S, **changes)

    def raise_if_exited(self) -> None:
        """Raise ServerExitedError, with the end of the log, if the server has died."""
        self._open_server().raise_if_exited()

    def close(self) -> None:
        """End it; returns when its processes are gone."""
        if self._server is not None:
            self._server.close()

    def _hold(self, process: ServerProcess) -> None:
        self._process = process
        if self._cancelled.is_set():
            process.stop()

    def _open_server(self) -> Server:
        if self._server is None:
            raise RuntimeError("the server is not open")
        return self._server


class Attached:
    """A server that somebody else runs. An API key is taken from SPECSWITCH_API_KEY."""

    def __init__(self, url: str, base: SweepParameters) -> None:
        self.url = url if "://" in url else f"http://{url}"
        self.base = base
        self.path: Kind = "none"
        self.words = f"Attaching to {self.url}"
        self.api_key = os.environ.get("SPECSWITCH_API_KEY") or None

    def open(self) -> None:
        """See that it answers and is one of ours, and take its parameters."""
        info = control.server_info(self.url, api_key=self.api_key, timeout_s=LOOK_TIMEOUT_S)
        state = control.state_of(info, self.url)
        self.path = path_of(state)
        self.base = parameters_of(info, state, self.base)

    def cancel(self) -> None:
        """Nothing here waits for long."""

    def state(self) -> dict[str, Any]:
        """The server's report now."""
        return control.read_state(self.url, api_key=self.api_key, timeout_s=LOOK_TIMEOUT_S)

    def set_rule(self, **changes: Any) -> dict[str, Any]:
        """As `control.set_rule`."""
        return control.set_rule(self.url, api_key=self.api_key, timeout_s=LOOK_TIMEOUT_S, **changes)

    def raise_if_exited(self) -> None:
        """Never: its process is not ours to watch."""

    def close(self) -> None:
        """Leave it running."""
