"""What the figures of a crossing run are drawn from: small tables, computed from the stored requests and steps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from specswitch.load.shapes import Shape, SlotShape
from specswitch.metrics.acceptance import accept_length
from specswitch.metrics.mode_changes import REACH, mean_relative, mode_changes
from specswitch.metrics.recovery import recovery_curve
from specswitch.metrics.throughput import per_second
from specswitch.metrics.window import Window
from specswitch.results.run import Run
from specswitch.results.tables import table

CURVE_STEPS = 24
RATE_SLICES = 60
RATE_COLUMNS = ("label", "repeat", "t_s", "tok_s")
RECOVERY_COLUMNS = ("label", "repeat", "step", "num", "den", "always_num", "always_den")
CHANGE_COLUMNS = ("label", "repeat", "to", "offset", "relative")
STEP_COLUMNS = ("t_s", "batch", "mode", "accepted", "emitted")


@dataclass(frozen=True, slots=True)
class Crossing:
    """What there is to see of a crossing run.

    `points`: one row per planned point. `target`: as `target_curve`. `shown`: the arm whose `steps` (of its
    first finished repeat) are the timeline, None when no point has steps; `threshold`: its rule's. `rates`,
    `recovery`, `changes`: as the functions below.
    """

    points: pd.DataFrame
    target: list[tuple[float, int]]
    shown: str | None
    threshold: int | None
    steps: pd.DataFrame
    rates: pd.DataFrame
    recovery: pd.DataFrame
    changes: pd.DataFrame


def crossing(run: Run) -> Crossing:
    """Everything at once. The timeline is that of the first dynamic arm, else of the first one with steps."""
    planned = sorted(run.manifest["points"], key=lambda p: p["arm"] != "dynamic")
    arms = {p["label"]: p["threshold"] for p in planned}
    found = ((label, steps_of(run, label)) for label in arms)
    shown, steps = next(((n, s) for n, s in found if not s.empty), (None, steps_of(run, "")))
    return Crossing(
        points=table(run),
        target=target_curve(run),
        shown=shown,
        threshold=arms.get(shown) if shown is not None else None,
        steps=steps,
        rates=rates(run),
        recovery=recovery(run),
        changes=changes(run),
    )


def target_curve(run: Run) -> list[tuple[float, int]]:
    """The slots that the load wanted as a step function: (seconds since its start, slots), ends included.

    Empty for an open loop, which wants no number of slots. Read off the shape every 10 ms.
    """
    shape = TypeAdapter(Shape).validate_json(json.dumps(run.manifest["plan"]["shape"]))
    if not isinstance(shape, SlotShape):
        return []
    curve: list[tuple[float, int]] = []
    for i in range(round(shape.duration_s * 100)):
        target = shape.target(i / 100)
        if not curve or curve[-1][1] != target:
            curve.append((i / 100, target))
    return [*curve, (shape.duration_s, 0)]


def steps_of(run: Run, label: str, repeat: int | None = None) -> pd.DataFrame:
    """The decode steps of one point of an arm (default: its first finished repeat), `t_s` since the load began.

    Columns `STEP_COLUMNS`; no row where there is no such point or the server kept no steps.
    """
    for point in _by_repeat(run):
        if point["label"] == label and repeat in (None, point["repeat"]):
            start_s = point["load_started_s"]
            rows = [
                (s.t_s - start_s, s.batch, s.mode, s.accepted, s.emitted)
                for s in run.steps(point["point_id"])
            ]
            return pd.DataFrame(rows, columns=list(STEP_COLUMNS))
    return pd.DataFrame(columns=list(STEP_COLUMNS))


def rates(run: Run, slices: int = RATE_SLICES) -> pd.DataFrame:
    """Output tokens per second in equal slices of the driven time, by arm and repeat; `t_s`: middle of the slice.

    Columns `RATE_COLUMNS`.
    """
    rows = []
    for point in _by_repeat(run):
        start_s, end_s = point["load_started_s"], point["load_ended_s"]
        counts = per_second(run.requests(point["point_id"]), Window(start_s, end_s), slices)
        width_s = (end_s - start_s) / slices
        rows += [
            # Rounded: a duration is a difference of two clock readings, and slices of repeats must meet.
            (point["label"], point["repeat"], round((i + 0.5) * width_s, 6), rate)
            for i, rate in enumerate(counts)
        ]
    return pd.DataFrame(rows, columns=list(RATE_COLUMNS))


def recovery(run: Run, length: int = CURVE_STEPS) -> pd.DataFrame:
    """Accept length by verify step since the resume, for every point with a resume, beside always-on.

    `num` / `den`: tokens emitted / request-steps in step 1, 2, ... `length`. `always_num` / `always_den`: the
    same over all verify steps of the arm `always` on the same path in the same repeat; missing without one.
    No row where the engine drew the accept lengths: any sync rule would look recovered. Columns `RECOVERY_COLUMNS`.
    """
    always = {
        (p["path"], p["repeat"]): accept_length(run.steps(p["point_id"]))
        for p in run.points
        if p["arm"] == "always"
    }
    rows = []
    for point in _by_repeat(run):
        if point["arm"] != "dynamic" or run.acceptance_drawn:
            continue
        base = always.get((point["path"], point["repeat"]))
        beside = (base.num, base.den) if base is not None and base.den else (None, None)
        curve = recovery_curve(run.steps(point["point_id"]), length)
        rows += [
            (point["label"], point["repeat"], step, ratio.num, ratio.den, *beside)
            for step, ratio in enumerate(curve, start=1)
            if ratio.den
        ]
    whole = dict.fromkeys(("num", "den", "always_num", "always_den"), "Int64")
    return pd.DataFrame(rows, columns=list(RECOVERY_COLUMNS)).astype(whole)


def changes(run: Run, reach: int = REACH) -> pd.DataFrame:
    """Step times around a change of mode over the usual ones: means over the changes of each point.

    `to`: the new mode; `offset`: steps since its first one, negative before it. Columns `CHANGE_COLUMNS`.
    """
    rows = []
    for point in _by_repeat(run):
        found = mode_changes(run.steps(point["point_id"]), reach)
        for to in ("plain", "speculative"):
            rows += [
                (point["label"], point["repeat"], to, offset, value)
                for offset, value in enumerate(mean_relative(found, to), start=-reach)
                if value is not None
            ]
    return pd.DataFrame(rows, columns=list(CHANGE_COLUMNS))


def _by_repeat(run: Run) -> Iterator[Mapping[str, Any]]:
    yield from sorted(run.points, key=lambda p: int(p["repeat"]))
