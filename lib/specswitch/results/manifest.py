"""The manifest of a run: what was planned, with which code, machine and models, and how it ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from specswitch.load.crossing_plan import AnyPlan, AnyPoint
from specswitch.results import provenance
from specswitch.results.layout import SCHEMA_VERSION, ResultsError
from specswitch.results.model_identity import model_identity

Status = Literal["running", "complete", "failed"]
# What going on with a run needs to know of it.
ENTRIES = (
    "run_id",
    "status",
    "started_at",
    "parameters",
    "plan",
    "points",
    "provenance",
    "models",
    "resumed",
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is about to be measured: the plan, its points, and the flat parameters that it was made from."""

    plan: AnyPlan
    points: Sequence[AnyPoint]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    synthetic: bool = False


def now() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_manifest(request: RunRequest, folder: Path) -> dict[str, Any]:
    """The manifest of a run in `folder` that begins now, status `running`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": uuid.uuid4().hex[:12],
        "status": "running",
        "error": None,
        "started_at": now(),
        "ended_at": None,
        "synthetic": request.synthetic,
        "parameters": provenance.shorten(dict(request.parameters), folder),
        "plan": provenance.shorten(request.plan.model_dump(mode="json"), folder),
        "points": [planned(p) for p in request.points],
        "provenance": provenance.collect(request.plan.server.device),
        "models": {name: model_identity(getattr(request.plan, name)) for name in ("model", "draft")},
        "resumed": [],
        "servers": [],
    }


def planned(point: AnyPoint) -> dict[str, Any]:
    """A planned point in short: its id, and the columns that place it in a table."""
    return {
        "point_id": point.point_id,
        "arm": point.arm.mode,
        "label": point.arm.label,
        "path": point.arm.path,
        "threshold": point.arm.rule.threshold,
        "concurrency": point.concurrency,
        "repeat": point.repeat,
    }


def resumed(old: dict[str, Any], request: RunRequest, folder: Path) -> dict[str, Any]:
    """The manifest of a run that goes on: `old`, running again, with the new (same or larger) grid.

    Raises:
        ResultsError: the new plan would mix different measurements in one folder; names what differs.
    """
    new = new_manifest(request, folder)
    _check_same_measurement(old, new)
    return {
        **old,
        "status": "running",
        "error": None,
        "ended_at": None,
        "parameters": new["parameters"],
        "plan": new["plan"],
        "points": new["points"],
        "resumed": [
            *old["resumed"],
            {"at": now(), **{k: new["provenance"][k] for k in ("git_commit", "git_dirty")}},
        ],
    }


def _check_same_measurement(old: dict[str, Any], new: dict[str, Any]) -> None:
    ids = {p["point_id"] for p in new["points"]}
    lost = [p["point_id"] for p in old["points"] if p["point_id"] not in ids]
    found = []
    if lost:
        found = differences(old["plan"], new["plan"]) or [f"{len(lost)} points, among them {lost[0]}"]
    for name in ("model", "draft"):
        found += differences(old["models"][name], new["models"][name], f"{name}.")
    was, here = old["provenance"], new["provenance"]
    found += differences(
        {"device": was["device"], "sglang": was["packages"]["sglang"]},
        {"device": here["device"], "sglang": here["packages"]["sglang"]},
    )
    if found:
        raise ResultsError(
            f"this run folder holds another measurement ({'; '.join(found[:4])}): one folder, one "
            "measurement; choose another output folder, or the old values to go on here"
        )


def differences(old: Any, new: Any, name: str = "") -> list[str]:
    """What differs between two JSON values, as texts `key: old -> new`."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        prefix = f"{name.rstrip('.')}." if name else ""
        return [d for k in keys for d in differences(old.get(k), new.get(k), f"{prefix}{k}")]
    return [] if old == new else [f"{name}: {old!r} -> {new!r}"]
