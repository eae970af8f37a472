"""Crossing runs with made-up requests and steps, written through the real store."""

from __future__ import annotations

from pathlib import Path

from specswitch.config import ServerConfig
from specswitch.load.crossing_plan import CrossingPlan, CrossingPoint
from specswitch.load.shape_text import parse_shape
from specswitch.load.shapes import SlotShape
from specswitch.metrics.crossing import crossing_metrics
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.metrics.window import Window
from specswitch.results.manifest import RunRequest
from specswitch.results.store import open_store
from specswitch.sweep import grid
from specswitch.sweep.arms import parse_arm

LOAD = "square:low=2,high=12,period=4,duration=8"
DURATION_S = 8.0
ARMS = ("none", "always-v2", "dynamic-v2-t4")
MODEL, DRAFT = "tiny-target", "tiny-eagle3"
STARTED_S = 100.0
STEP_S = 0.01


class StoppedEarlyError(RuntimeError):
    """Stands for whatever ends a run."""


def accept_length_of(label: str, step: int) -> float:
    """Made-up accept length in a verify step: a dynamic arm begins at 1.5 and is back at 2 in its third step."""
    return 1.5 if label.startswith("dynamic") and step < 3 else 2.0


def write_crossing(
    folder: Path,
    labels: tuple[str, ...] = ARMS,
    load: str = LOAD,
    repeats: int = 2,
    fail_after: int | None = None,
) -> Path:
    """A run in `folder`; `fail_after` ends it with an error after so many points."""
    plan = CrossingPlan(
        model=MODEL,
        draft=DRAFT,
        arms=tuple(parse_arm(label) for label in labels),
        repeats=repeats,
        shape=parse_shape(load),
        server=ServerConfig(model=MODEL),
    )
    points = grid.points(plan)
    try:
        with open_store(folder, RunRequest(plan, points)) as store:
            for done, point in enumerate(points):
                if done == fail_after:
                    raise StoppedEarlyError("the server died")
                assert isinstance(point, CrossingPoint)
                records, steps = made_up(point)
                raw = store.write_raw(point.point_id, records, steps)
                driven = Window(STARTED_S, STARTED_S + point.shape.duration_s)
                row = {
                    "arm": point.arm.mode,
                    "label": point.arm.label,
                    "path": point.arm.path,
                    "threshold": point.arm.rule.threshold,
                    "concurrency": None,
                    "repeat": point.repeat,
                    "synthetic": False,
                    "shape": point.shape.text,
                    "load_started_s": driven.start_s,
                    "load_ended_s": driven.end_s,
                    **crossing_metrics(records, steps, driven),
                }
                store.write_point(point.point_id, row, raw)
    except StoppedEarlyError:
        pass
    return folder


def made_up(point: CrossingPoint) -> tuple[list[RequestRecord], list[StepRecord]]:
    """Requests and steps of one point: a verify step takes 10 ms (20 right after a change), a plain one 5."""
    steps: list[StepRecord] = []
    t_s, mode, since = STARTED_S, "speculative", 99
    threshold = point.arm.rule.threshold
    while t_s < STARTED_S + point.shape.duration_s:
        shape = point.shape
        batch = shape.target(t_s - STARTED_S) if isinstance(shape, SlotShape) else 3
        speculates = point.arm.path != "none" and (threshold is None or batch <= threshold)
        now = "speculative" if speculates else "plain"
        switched = bool(steps) and now != mode
        since = 1 if switched else since + 1
        ms = (20.0 if switched else 10.0) if speculates else 5.0
        t_s += ms / 1000
        emitted = round(batch * accept_length_of(point.arm.label, since)) if speculates else batch
        proposed, accepted = (3 * batch, emitted - batch) if speculates else (0, 0)
        mode = now
        steps.append(StepRecord(t_s, batch, now, proposed, accepted, emitted, 0, switched, ms))
    return _requests(steps, point.repeat), steps


def _requests(steps: list[StepRecord], repeat: int) -> list[RequestRecord]:
    """One long request per fifty steps that gets all their tokens; repeats differ by a little."""
    found = []
    for number, start in enumerate(range(0, len(steps), 50)):
        part = steps[start : start + 50]
        times = tuple(s.t_s for s in part for _ in range(s.emitted))[: -1 - repeat]
        sent_s = part[0].t_s - 0.004
        found.append(
            RequestRecord(number, sent_s, sent_s, part[-1].t_s, times, 8, len(times), 0, None, "length")
        )
    return found
