"""Run folders with made-up numbers, written through the real store: for tests of the report."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from plots.tables import STATS, made_up_row
from results.made_up import records
from specswitch.config import Arm, Point, Rule, ServerConfig, SweepPlan, Workload
from specswitch.results.manifest import RunRequest
from specswitch.results.store import open_store

MODEL, DRAFT = "tiny-target", "tiny-eagle3"
ARMS = {
    "none": Arm(mode="none"),
    "none-sync": Arm(mode="none", overlap=False),
    "always-v1": Arm(mode="always", path="v1"),
    "always-v2": Arm(mode="always", path="v2"),
    "off-v2-lazy": Arm(mode="off", path="v2", rule=Rule(threshold=0, sync="lazy")),
    "dynamic-v1-t8-lazy": Arm(mode="dynamic", path="v1", rule=Rule(threshold=8, sync="lazy")),
    "dynamic-v2-t8-lazy": Arm(mode="dynamic", path="v2", rule=Rule(threshold=8, sync="lazy")),
    "dynamic-v2-t16-lazy": Arm(mode="dynamic", path="v2", rule=Rule(threshold=16, sync="lazy")),
}
STATIC_ARMS = ("none", "none-sync", "always-v1", "always-v2")


class ServerDiedError(RuntimeError):
    """Stands for whatever ends a run before its last point."""


def write_run(
    folder: Path,
    labels: tuple[str, ...] = STATIC_ARMS,
    concurrencies: tuple[int, ...] = (1, 4, 8, 32),
    repeats: int = 3,
    fail_after: int | None = None,
    server: dict[str, Any] | None = None,
    synthetic: bool = False,
    **parameters: Any,
) -> Path:
    """A run in `folder`; `fail_after` ends it with an error after so many points.

    Requests are stored (four a point, in a window of 4 s) only where a limit is among the parameters.
    """
    limited = any(name.endswith("_limit_ms") for name in parameters)
    plan = SweepPlan(
        model=MODEL,
        draft=DRAFT,
        arms=tuple(ARMS[label] for label in labels),
        concurrencies=concurrencies,
        repeats=repeats,
        workload=Workload(),
        server=ServerConfig(model=MODEL),
    )
    points = planned_points(plan)
    noise = random.Random(11)
    window = {"window_start_s": 0.0, "window_end_s": 4.0} if limited else {}
    try:
        with open_store(folder, RunRequest(plan, points, parameters, synthetic)) as store:
            if server:
                store.add_server(server)
            for done, point in enumerate(points):
                if done == fail_after:
                    raise ServerDiedError(
                        "the server ended with exit code 3 at C = 8. Log: /srv/runs/x/servers/always-v1.log."
                    )
                raw = store.write_raw(point.point_id, records() if limited else [], [])
                row = made_up_row(point.arm.label, point.concurrency, point.repeat, noise)
                store.write_point(point.point_id, {**nested(row), **window, "synthetic": synthetic}, raw)
    except ServerDiedError:
        pass
    return folder


def planned_points(plan: SweepPlan) -> list[Point]:
    """Every point of the plan, repeats outermost."""
    return [
        Point(
            arm=arm,
            server=ServerConfig(model=MODEL, draft=None if arm.path == "none" else DRAFT, path=arm.path),
            workload=plan.workload,
            concurrency=c,
            repeat=r,
        )
        for r in range(plan.repeats)
        for c in plan.concurrencies
        for arm in plan.arms
    ]


def nested(row: dict[str, object]) -> dict[str, Any]:
    """A row of a table in the shape of `point.json`."""
    point: dict[str, Any] = {"ratios": {}}
    for key, value in row.items():
        name, _, part = key.rpartition("_")
        if part in STATS and name.endswith("_ms"):
            point.setdefault(name, {})[part] = value
        elif part in ("num", "den"):
            rate = "speculated_share" if name == "speculated_share_steps" else name
            if value is not None:
                point["ratios"].setdefault(rate, {})[part] = value
        elif key == "speculated_share_steps":
            point["speculated_share"] = value
        elif key not in ("status", "point_id"):
            point[key] = value
    return point
