"""Made-up plans, records and finished points for tests of the store and its readers."""

from __future__ import annotations

from typing import Any

from specswitch.config import Arm, Point, ServerConfig, SweepPlan, Workload
from specswitch.metrics.point import point_metrics
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.metrics.window import Window
from specswitch.results.manifest import RunRequest
from specswitch.results.store import RunStore

MODEL, DRAFT = "hub/target", "hub/draft"
NONE, V2 = Arm(mode="none"), Arm(mode="always", path="v2")


def plan(
    arms: tuple[Arm, ...] = (NONE, V2),
    concurrencies: tuple[int, ...] = (1, 2),
    repeats: int = 1,
    **workload: Any,
) -> SweepPlan:
    return SweepPlan(
        model=MODEL,
        draft=DRAFT,
        arms=arms,
        concurrencies=concurrencies,
        repeats=repeats,
        workload=Workload(**workload),
        server=ServerConfig(model=MODEL),
    )


def points(p: SweepPlan) -> list[Point]:
    return [
        Point(
            arm=arm,
            server=ServerConfig(model=MODEL, draft=None if arm.path == "none" else DRAFT, path=arm.path),
            workload=p.workload,
            concurrency=c,
            repeat=r,
        )
        for r in range(p.repeats)
        for c in p.concurrencies
        for arm in p.arms
    ]


def request(p: SweepPlan | None = None, **parameters: Any) -> RunRequest:
    p = p or plan()
    return RunRequest(p, points(p), parameters)


def records(n: int = 4) -> list[RequestRecord]:
    """n requests one after the other, 1 s each, five tokens, two of them in one chunk."""
    return [
        RequestRecord(
            request_id=i,
            scheduled_s=float(i),
            sent_s=i + 0.001,
            end_s=i + 0.9,
            token_times_s=(i + 0.1, i + 0.2, i + 0.2, i + 0.3, i + 0.4),
            prompt_tokens=8,
            completion_tokens=5,
            cached_tokens=0,
            spec_verify_ct=3,
            finish_reason="length",
            output_ids=(1, 2, 3, 4, 5),
        )
        for i in range(n)
    ]


def steps(n: int = 8) -> list[StepRecord]:
    return [
        StepRecord(
            t_s=0.1 + i / 4,
            batch=2,
            mode="speculative" if i % 2 else "plain",
            proposed=6 * (i % 2),
            accepted=3 * (i % 2),
            emitted=2 + 3 * (i % 2),
            synced=0,
            switched=i > 0,
            step_ms=250.0 if i else None,
        )
        for i in range(n)
    ]


def finish(store: RunStore, point: Point) -> None:
    """Store made-up records and a row for a point, as the runner does."""
    raw = store.write_raw(point.point_id, records(), steps())
    arm = point.arm
    row = {
        "arm": arm.mode,
        "label": arm.label,
        "path": arm.path,
        "worker_class": "EAGLEWorkerV2" if arm.path == "v2" else "TpModelWorker",
        "threshold": arm.rule.threshold,
        "concurrency": point.concurrency,
        "repeat": point.repeat,
        "synthetic": False,
        **point_metrics(records(), steps(), Window(0.0, 4.0)),
    }
    store.write_point(point.point_id, row, raw)
