"""One point on one running server: empty its cache, set the rule, load it, take what client and engine saw.

The numbers come later: what is returned is raw and goes to the disk first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specswitch.config import Point
from specswitch.load.closed_batch import run_closed_batch_sync
from specswitch.load.closed_loop import run_sync
from specswitch.load.crossing_plan import AnyPoint, CrossingPoint
from specswitch.load.idle import wait_until_idle
from specswitch.load.over_time import run_over_time_sync, warm_up
from specswitch.load.prompts import Prompts
from specswitch.load.sender import LoadResult
from specswitch.metrics.records import StepRecord
from specswitch.results.steps_file import count_steps, read_steps, step_log
from specswitch.sweep.identity import check_rule, identity_row

LOG_WAIT_S = 10.0
IDLE_WAIT_S = 60.0


class SweepStoppedError(RuntimeError):
    """Somebody asked the sweep to stop. Finished points are kept."""


class PointFailedError(RuntimeError):
    """The load could not be held: requests failed. The message tells the most frequent errors."""


class StepLogError(RuntimeError):
    """The engine counted steps that are not in its step log."""


class LiveServer(Protocol):
    """What a measurement needs of a server (`serving.launch.Server` has it)."""

    @property
    def url(self) -> str:
        """Base URL."""
        ...

    @property
    def api_key(self) -> str | None:
        """What its clients must send, if anything."""
        ...

    def state(self) -> Mapping[str, Any]:
        """The server's own report, fresh."""
        ...

    def set_rule(self, **changes: Any) -> Any:
        """Change the rule between two steps."""
        ...

    def flush(self) -> Any:
        """Empty the prefix cache."""
        ...

    def raise_if_exited(self) -> None:
        """Raise ServerExitedError when its process is gone."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """The raw outcome of a point. `identity`: columns taken from the running server, not from what was asked."""

    load: LoadResult
    steps: tuple[StepRecord, ...]
    identity: dict[str, Any]


def measure(
    server: LiveServer, point: AnyPoint, prompts: Prompts, steps_dir: Path, stop: threading.Event
) -> Measured:
    """Measure `point` on a server that was started for it. `stop` ends the load at once.

    Raises:
        IdentityError: the server is not, or does not decide, as the point asks.
        SweepStoppedError, StepLogError; and what the server or the load raises.
    """
    server.flush()
    if point.server.rule.threshold is not None:
        server.set_rule(**rule_changes(point))
    if isinstance(point, CrossingPoint) and point.warmup_s:
        key = server.api_key
        warm_up(server.url, prompts, point.workload, point.shape, point.warmup_s, stop=stop, api_key=key)
        wait_until_idle(server.url, IDLE_WAIT_S, api_key=key)
        server.flush()
    identity = identity_row(point, server.state())
    load = drive(server, point, prompts, stop)
    if load.stopped_by == "stop":
        raise SweepStoppedError(f"stopped in {point.point_id}")
    wait_until_idle(server.url, IDLE_WAIT_S, api_key=server.api_key)
    after = server.state()
    check_rule(point, after)
    steps = complete_steps(steps_dir, after, load.started_s, load.ended_s)
    return Measured(load, tuple(steps), identity)


def drive(server: LiveServer, point: AnyPoint, prompts: Prompts, stop: threading.Event) -> LoadResult:
    """Load the server as the point asks: a constant concurrency, one batch, or a shape over time."""
    url, key = server.url, server.api_key
    if isinstance(point, Point) and not point.workload.refill:
        return run_closed_batch_sync(url, prompts, point.workload, point.concurrency, stop=stop, api_key=key)
    if isinstance(point, Point):
        return run_sync(url, prompts, point.workload, point.concurrency, stop=stop, api_key=key)
    return run_over_time_sync(
        url, prompts, point.workload, point.shape, repeat=point.repeat, stop=stop, api_key=key
    )


def rule_changes(point: AnyPoint) -> dict[str, Any]:
    """Arguments of `set_rule` that give the point's rule. The sync rule only where the point names one."""
    rule = point.server.rule
    changes: dict[str, Any] = {
        "threshold": rule.threshold,
        "enable_threshold": rule.enable_threshold,
        "dwell": rule.dwell,
    }
    return changes if rule.sync is None else {**changes, "sync": rule.sync}


def complete_steps(
    steps_dir: Path, state: Mapping[str, Any], start_s: float, end_s: float
) -> list[StepRecord]:
    """The engine's steps in [start_s, end_s), once its log holds every step that it counts in `state`.

    Raises:
        StepLogError: the log stays behind the engine's own count.
    """
    log = step_log(steps_dir)
    counted = (state.get("plain_steps") or 0) + (state.get("speculative_steps") or 0)
    deadline_s = time.monotonic() + LOG_WAIT_S
    while (written := count_steps(log)) < counted:
        if time.monotonic() > deadline_s:
            raise StepLogError(
                f"the engine counts {counted} decode steps, its log {log.name} has {written}: "
                "is the disk full, or was the log removed?"
            )
        time.sleep(0.05)
    return read_steps(log, start_s, end_s) if log.exists() else []
