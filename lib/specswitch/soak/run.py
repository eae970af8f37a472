"""Soak one path: start its server, load it, keep changing its rule, watch its memory, and look what is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specswitch.config import ServerConfig
from specswitch.load.idle import tokens_in_use, wait_until_idle
from specswitch.load.own_loop import run_in_own_loop
from specswitch.serving import control
from specswitch.serving.errors import ServingError
from specswitch.soak.asks import Asks
from specswitch.soak.beside import Beside
from specswitch.soak.load import SoakLoad, Tally
from specswitch.soak.memory import SAMPLE_S, Growth, Sample, growth, resident_mib
from specswitch.soak.plan import SoakPlan
from specswitch.soak.unrest import Rules, Tide

SAY_EVERY_S = 30.0
IDLE_WAIT_S = 60.0
DEATH_KNOWN_S = 3.0
LAST_TOKENS = 16

# As `serving.launch.launch`: (config, log file) -> a running server, a context manager.
Launch = Callable[[ServerConfig, Path], Any]
Say = Callable[[str], Any]


@dataclass(slots=True)
class PathRun:
    """What one path's soak left. `troubles`: everything that must not happen, in words; none is good.

    `state`: the server's own report at the end, None if it did not live to give it. `tokens_left`: KV slots
    in use when idle. `differing`: outputs that are not the plain server's, None while not compared.
    """

    path: str
    tally: Tally
    memory: Growth
    samples: list[Sample]
    rule_changes: int = 0
    state: dict[str, Any] | None = None
    idle_after_s: float | None = None
    tokens_left: int | None = None
    flushed: bool = False
    differing: list[Any] | None = None
    troubles: list[str] = field(default_factory=list)


def soak_path(plan: SoakPlan, path: str, log: Path, launch: Launch, say: Say = lambda _: None) -> PathRun:
    """Start the server of `path`, soak it, stop it. What goes wrong once it is up is told in the result.

    Raises ServingError when the server does not come up.
    """
    samples: list[Sample] = []
    with launch(plan.servers[path], log) as server:
        load = SoakLoad(
            server.url,
            Asks(plan.prompts, plan.mix, plan.seed),
            Tide(plan.threshold, plan.peak, plan.seed),
            plan.request_timeout_s,
            f"soak-{path}",
            server.api_key,
        )
        rules = Rules(plan.threshold, plan.seed)
        changes = Beside(lambda: server.set_rule(**rules.draw()), rules.pause_s)
        watch = Beside(
            lambda: samples.append(Sample(load.tally.over, resident_mib(server.pid))), lambda: SAMPLE_S
        )
        look = _Look(server, load.tally, f"{path}: ", say, plan.requests)
        troubles: list[str] = []
        with watch, changes:
            try:
                run_in_own_loop(
                    lambda: load.run(plan.requests, plan.seconds, look), on_interrupt=look.interrupted.set
                )
            except ServingError as death:
                troubles.append(str(death))
        run = PathRun(path, load.tally, growth(samples), samples, changes.done, troubles=troubles)
        if not troubles:
            troubles += [f"{type(e).__name__}: {e}" for e in (changes.error, watch.error) if e is not None]
            troubles += _settle(server, run)
    return run


class _InterruptedError(RuntimeError):
    """Ends the load; the interrupt itself goes on beside it."""


class _Look:
    """Called all the time: raises when the server has died, says now and then how far the load is."""

    def __init__(self, server: Any, tally: Tally, prefix: str, say: Say, requests: int) -> None:
        self._server, self._tally, self._prefix, self._say = server, tally, prefix, say
        self._requests = requests
        self._next_s = time.monotonic() + SAY_EVERY_S
        self.interrupted = threading.Event()

    def __call__(self) -> None:
        if self.interrupted.is_set():
            raise _InterruptedError
        self._server.raise_if_exited()
        if time.monotonic() >= self._next_s:
            self._next_s += SAY_EVERY_S
            t = self._tally
            self._say(f"{self._prefix}{t.over} of {self._requests} requests, {t.failed} failed")


def _settle(server: Any, run: PathRun) -> list[str]:
    """Look what an idle server still holds, empty its cache, and have it answer once more."""
    try:
        _raise_if_dying(server, run.tally)
        run.idle_after_s = wait_until_idle(server.url, IDLE_WAIT_S, api_key=server.api_key)
        run.tokens_left = tokens_in_use(server.url, api_key=server.api_key)
        run.state = server.state()
        server.flush()
        run.flushed = True
        control.generate(server.url, [5, 6, 7], LAST_TOKENS, api_key=server.api_key)
        server.raise_if_exited()
    except (ServingError, OSError) as problem:  # a timeout is one of the latter
        return [f"after the load: {problem}"]
    return [f"{run.tokens_left} KV slots in use when idle"] if run.tokens_left else []


def _raise_if_dying(server: Any, tally: Tally) -> None:
    """A server's end is known a moment after its clients notice."""
    deadline_s = time.monotonic() + DEATH_KNOWN_S
    while tally.failed and time.monotonic() < deadline_s:
        server.raise_if_exited()
        time.sleep(0.1)
