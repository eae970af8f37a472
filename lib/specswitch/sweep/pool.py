"""The servers of a sweep: started when first needed, kept as long as allowed, all closed at the end."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from specswitch.config import ServerConfig
from specswitch.load.crossing_plan import AnyPoint
from specswitch.results.files import make_folder
from specswitch.results.layout import SERVERS
from specswitch.results.manifest import now
from specswitch.results.store import RunStore
from specswitch.sweep.grid import Hold, launch_config, launch_configs, server_name

# As `serving.launch.launch`: (config, log file, steps_dir=...) -> a running server.
Launch = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Held:
    """A running server with its name, its log and the folder of its step log."""

    server: Any
    name: str
    log: Path
    steps_dir: Path


class ServerPool:
    """Running servers by what a live server cannot change. Use as a context manager.

    hold: `all` keeps every server (idle ones sleep), `one` closes the last before it starts another.
    on_launch: told the name of each that is started. on_ready: gets each that is up, before it is used.
    """

    def __init__(
        self,
        launch: Launch,
        store: RunStore,
        hold: Hold,
        on_launch: Callable[[str], None],
        on_ready: Callable[[Any, ServerConfig], None] = lambda _, __: None,
    ) -> None:
        self._launch = launch
        self._store = store
        self._hold = hold
        self._on_launch = on_launch
        self._on_ready = on_ready
        self._held: dict[str, Held] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_together(self, points: Sequence[AnyPoint]) -> None:
        """Start every server that these points need at the same time: on a GPU each takes a minute or more.

        Raises as `server_for` for the first that failed; then no other goes on starting.
        """
        configs = [c for c in launch_configs(points) if c.canonical() not in self._held]
        prepared = [self._prepare(config) for config in configs]
        processes: list[Any] = []
        failed = threading.Event()

        def on_process(process: Any) -> None:
            processes.append(process)
            if failed.is_set():
                process.stop()

        def start(config: ServerConfig, name: str, log: Path) -> None:
            self._held[config.canonical()] = self._start(config, name, log, on_process=on_process)

        with ThreadPoolExecutor(max_workers=max(1, len(configs))) as threads:
            starting = [threads.submit(start, c, *names) for c, names in zip(configs, prepared, strict=True)]
            try:
                for started in as_completed(starting):
                    started.result()
            except BaseException:
                failed.set()
                for process in processes:  # ends the wait of the other threads
                    process.stop()
                raise
        for config in configs:
            self._prove(config, self._held[config.canonical()])

    def server_for(self, point: AnyPoint) -> Held:
        """The server for this point; started now if it is not up.

        Raises what `launch` raises, and DraftMismatchError when practically no draft is right.
        """
        config = launch_config(point.server)
        key = config.canonical()
        if key not in self._held:
            if self._hold == "one":
                self.close()
            self._held[key] = self._start(config, *self._prepare(config))
            self._prove(config, self._held[key])
        return self._held[key]

    def close(self) -> None:
        """Stop every server, all at the same time, and remove their step logs."""
        going = list(self._held.values())
        self._held.clear()
        if not going:
            return
        with ThreadPoolExecutor(max_workers=len(going)) as threads:
            closing = [threads.submit(held.server.close) for held in going]
        for held in going:
            shutil.rmtree(held.steps_dir, ignore_errors=True)
        for closed in closing:
            closed.result()

    def _prepare(self, config: ServerConfig) -> tuple[str, Path]:
        """Name and log file of a server that is about to start."""
        name = self._free_name(server_name(config))
        log = self._store.folder / SERVERS / f"{name}.log"
        make_folder(log.with_suffix(".steps"))
        self._on_launch(name)
        return name, log

    def _start(self, config: ServerConfig, name: str, log: Path, **options: Any) -> Held:
        steps_dir = log.with_suffix(".steps")
        try:
            server = self._launch(config, log, steps_dir=steps_dir, **options)
            try:
                self._on_ready(server, config)
            except BaseException:
                server.close()
                raise
        except BaseException:
            shutil.rmtree(steps_dir, ignore_errors=True)
            raise
        return Held(server, name, log, steps_dir)

    def _prove(self, config: ServerConfig, held: Held) -> None:
        """Record the server, and see that its draft is one: a wrong pair runs, and only gets nothing right."""
        self._store.add_server(
            {
                "name": held.name,
                "log": f"{SERVERS}/{held.log.name}",
                "launched_at": now(),
                "argv": list(held.server.argv),
                "env": held.server.env_record["set"],
                "env_dropped": held.server.env_record["dropped"],
                "identity": held.server.identity,
            }
        )
        if config.path != "none" and not config.synthetic:
            held.server.smoke_accept_length()

    def _free_name(self, base: str) -> str:
        """`base`, or `base-2`, `base-3` ...: a log is never written into twice."""
        taken = {entry["name"] for entry in self._store.manifest["servers"]}
        taken |= {path.stem for path in (self._store.folder / SERVERS).iterdir()}
        names = (base if n == 1 else f"{base}-{n}" for n in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)
