"""Run a plan: every missing point once, each stored as soon as it is measured.

A sweep that ends early, for whatever reason, keeps its finished points; the next run with `resume` does only
the rest.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from specswitch.config import Point, ServerConfig
from specswitch.load.crossing_plan import AnyPlan, AnyPoint
from specswitch.metrics.point import request_counts
from specswitch.results import Run, read_run
from specswitch.results.layout import SERVERS
from specswitch.results.lock import locked_for_all_users
from specswitch.results.manifest import RunRequest
from specswitch.results.provenance import git_state
from specswitch.results.store import RunStore, open_store
from specswitch.serving.errors import ServingError
from specswitch.sweep import grid
from specswitch.sweep.measure import LiveServer, Measured, PointFailedError, SweepStoppedError, measure
from specswitch.sweep.pool import Held, Launch, ServerPool
from specswitch.sweep.precheck import precheck
from specswitch.sweep.progress import OnProgress, Progress, ignore
from specswitch.sweep.prompting import prompts_of
from specswitch.sweep.row import point_row
from specswitch.sweep.warm import warm_up
from specswitch.sweep.work import Done, Executor, Work

DEATH_KNOWN_S = 3.0


def run_sweep(
    plan: AnyPlan,
    out_dir: Path,
    *,
    parameters: Mapping[str, Any] | None = None,
    resume: bool = False,
    hold: grid.Hold = "all",
    stop: threading.Event | None = None,
    on_progress: OnProgress = ignore,
    launch: Launch | None = None,
    executor: Executor | None = None,
) -> Run:
    """Measure every point of `plan` that `out_dir` does not have yet; returns the stored run.

    Args:
        plan: a sweep or a crossing run.
        out_dir: absolute run folder; created if need be, locked while it is written.
        parameters: the flat parameters behind the plan, for the manifest.
        hold: `all` servers up at once, or `one` at a time.
        stop: ends the sweep within the current point, from any thread.
        launch: starts a server; `serving.launch.launch` unless a test says otherwise.
        executor: where the points are measured; `measure_here` unless another one is given.

    Raises:
        ResultsError, PreflightError: bad input or folder; nothing was started.
        ServingError, PointFailedError, SweepStoppedError: it began and did not end; the manifest says `failed`.
    """
    checked = precheck(plan, out_dir, resume=resume, hold=hold)
    points = checked.points
    request = RunRequest(plan, points, parameters or {}, plan.server.synthetic or checked.prompts.synthetic)
    halt = stop or threading.Event()
    with alone_on(plan.server.device), open_store(out_dir, request, resume=resume) as store:
        missing = [p for p in points if p.point_id not in store.finished]
        done = len(points) - len(missing)

        def starting(name: str) -> None:
            on_progress(Progress("server", done, len(points), name))

        def beginning(point_id: str) -> None:
            on_progress(Progress("point", done, len(points), point_id))

        work = Work(request, missing, store, hold, launch or _default_launch(), halt, starting, beginning)
        with closing((executor or measure_here)(work)) as measured:
            for point_id, row in measured:
                done += 1
                on_progress(Progress("done", done, len(points), point_id, row))
    return read_run(out_dir)


def measure_here(work: Work) -> Generator[Done, None, None]:
    """Measure the points one after the other, from this process. The executor that needs no cluster.

    Raises as `run_sweep`.
    """

    def ready(server: LiveServer, config: ServerConfig) -> None:
        if config.device == "cuda":
            used_by = [p for p in work.missing if grid.launch_config(p.server) == config]
            warm_up(server, [p for p in used_by if isinstance(p, Point)])

    with ServerPool(work.launch, work.store, work.hold, work.starting, ready) as pool:
        if work.hold == "all" and work.request.plan.server.device == "cuda":
            pool.start_together(work.missing)
        for point in work.missing:
            if work.stop.is_set():
                raise SweepStoppedError(f"stopped before {point.point_id}")
            held = pool.server_for(point)
            work.beginning(point.point_id)
            yield point.point_id, _measure_and_store(work.store, held, point, work.stop)


@contextmanager
def alone_on(device: str) -> Iterator[None]:
    """On GPUs, one sweep at a time, whoever runs it: two would fill the memory of both and measure each other.

    Raises as `locked_for_all_users`.
    """
    if device != "cuda":
        yield
        return
    visible = re.sub(r"\W+", "-", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    lock = Path(tempfile.gettempdir()) / f"specswitch-gpus-{visible}.lock"
    with locked_for_all_users(lock, f"measuring on the same GPUs ({lock} is locked): wait for it"):
        yield


def _measure_and_store(store: RunStore, held: Held, point: AnyPoint, stop: threading.Event) -> dict[str, Any]:
    """One point, raw records to the disk before any number is computed from them. Returns its row."""
    prompts = prompts_of(point)
    log_start = _size(held.log)
    try:
        measured = measure(held.server, point, prompts, held.steps_dir, stop)
    except (OSError, ServingError):
        _raise_if_dead(held)
        raise
    raw = store.write_raw(point.point_id, measured.load.records, measured.steps)
    if measured.load.stopped_by == "failures" or not any(r.outcome == "ok" for r in measured.load.records):
        _raise_if_dead(held)
        raise PointFailedError(_why_failed(point, measured))
    log = {"file": f"{SERVERS}/{held.log.name}", "start": log_start, "end": _size(held.log)}
    row = point_row(point, measured, prompts, {"server": held.name, "server_log": log}, git_state())
    store.write_point(point.point_id, row, raw)
    return row


def _raise_if_dead(held: Held) -> None:
    """Raise ServerExitedError when the server is gone; its end is known a moment after its clients notice."""
    deadline_s = time.monotonic() + DEATH_KNOWN_S
    while time.monotonic() < deadline_s:
        held.server.raise_if_exited()
        time.sleep(0.1)


def _why_failed(point: AnyPoint, measured: Measured) -> str:
    counts = request_counts(measured.load.records)
    errors = "; ".join(f"{n} x {text}" for text, n in counts["errors"].items()) or "no request ended"
    return (
        f"{point.point_id}: {counts['failed']} requests failed, {counts['completed']} succeeded, and the load "
        f"gave up: {errors}"
    )


def _default_launch() -> Launch:
    from specswitch.serving import launch

    return launch.launch


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
