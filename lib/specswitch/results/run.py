"""Reading a run folder. Writes and renames nothing, so it also works on a run in progress or on a read-only copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.results.frames import read_requests, read_step_records
from specswitch.results.layout import MANIFEST, POINTS, REQUESTS, STEPS, DamagedError, read_json
from specswitch.results.lock import is_locked
from specswitch.results.manifest import Status
from specswitch.results.store import check_point


@dataclass(frozen=True, slots=True)
class Run:
    """A stored run: `manifest.json`, the finished points, and why others could not be read (`problems`)."""

    folder: Path
    manifest: dict[str, Any]
    points: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]

    @property
    def kind(self) -> Literal["sweep", "crossing"]:
        """Loads of constant concurrency, or one that changes over time."""
        return "crossing" if "shape" in self.manifest["plan"] else "sweep"

    @property
    def acceptance_drawn(self) -> bool:
        """Whether the engine drew the accept lengths (simulated acceptance): they say nothing of a draft."""
        return self.manifest["parameters"].get("simulated_accept_length") is not None

    @property
    def status(self) -> Status:
        """As in the manifest; but `running` without a running writer means that it was killed: `failed`."""
        status = self.manifest["status"]
        return "failed" if status == "running" and not is_locked(self.folder) else status

    @property
    def error(self) -> str | None:
        """Why the run failed, in words; None unless it did."""
        if self.status != "failed":
            return None
        told = self.manifest["error"]
        return told["message"] if told else "the run ended without saying why: it was killed"

    @property
    def missing(self) -> list[dict[str, Any]]:
        """Planned points without a result, in planned order (entries of `manifest["points"]`)."""
        there = {p["point_id"] for p in self.points}
        return [p for p in self.manifest["points"] if p["point_id"] not in there]

    def requests(self, point_id: str) -> list[RequestRecord]:
        """What the client saw of every request of a point. Raises DamagedError, SchemaError."""
        return read_requests(self.folder / POINTS / point_id / REQUESTS)

    def steps(self, point_id: str) -> list[StepRecord]:
        """What the engine did in every decode step of a point. Raises DamagedError, SchemaError."""
        return read_step_records(self.folder / POINTS / point_id / STEPS)


def read_run(folder: Path | str) -> Run:
    """The run in `folder`. A damaged point is left out and named in `problems`.

    Raises:
        DamagedError: no manifest there, or it is damaged. SchemaError: written by another version.
    """
    folder = Path(folder).absolute()
    if not (folder / MANIFEST).is_file():
        raise DamagedError(f"{folder} holds no {MANIFEST}: give the folder of a run")
    manifest = read_json(folder / MANIFEST)
    points, problems = [], []
    for planned in manifest["points"]:
        home = folder / POINTS / planned["point_id"]
        if not home.is_dir():
            continue
        try:
            points.append(check_point(home))
        except DamagedError as problem:
            problems.append(str(problem))
    return Run(folder, manifest, tuple(points), tuple(problems))
