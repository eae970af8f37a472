"""The writer of a run folder: one immutable file per finished point, nothing half-written, resume by point id.

Per point the raw records go to the disk first, before any metric is computed. `point.json` comes last, and
its existence is what "finished" means; it holds the SHA-256 of the raw files and a digest of itself.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.results import manifest as manifests
from specswitch.results.files import check_writable, make_folder, saying_why, write_atomically, write_json
from specswitch.results.frames import requests_to_parquet, steps_to_parquet
from specswitch.results.layout import (
    LOCK,
    MANIFEST,
    POINT,
    POINTS,
    REQUESTS,
    SCHEMA_VERSION,
    SERVERS,
    STEPS,
    DamagedError,
    ResultsError,
    read_json,
)
from specswitch.results.lock import locked
from specswitch.results.manifest import RunRequest, Status
from specswitch.results.provenance import shorten


class SetAsideWarning(UserWarning):
    """A damaged or unfinished part of a run folder was renamed and will be measured again."""


@contextmanager
def open_store(folder: Path, request: RunRequest, *, resume: bool = False) -> Iterator[RunStore]:
    """Begin a run in `folder`, or go on with it; the folder is locked meanwhile.

    With `resume`, points that are finished and whole stay, damaged ones are set aside with a warning. At the
    end the manifest says `complete` or, when the body raised, `failed` and why.

    Raises:
        ResultsError: the folder cannot be written, holds a run and `resume` is false, or holds another
            measurement. BusyError: another process writes there. SchemaError: written by another version.
    """
    folder = folder.absolute()
    check_open(folder, resume)
    make_folder(folder / POINTS)
    make_folder(folder / SERVERS)
    with locked(folder):
        store = RunStore(folder, _begin(folder, request))
        try:
            yield store
        except BaseException as problem:
            store.finish("failed", problem)
            raise
        store.finish("complete")


def check_open(folder: Path, resume: bool) -> None:
    """The checks of `open_store` that need no plan; writes nothing. Raises ResultsError."""
    check_writable(folder)
    if (folder / MANIFEST).exists() and not resume:
        raise ResultsError(
            f"{folder} holds a run already: resume it (--resume) to measure what is missing, "
            "or choose another output folder"
        )
    _check_manifest_of_points(folder)


def _check_manifest_of_points(folder: Path) -> None:
    """Raise ResultsError where points are finished, but the manifest that says of which run is lost.

    A new one would give them another run, another date and, maybe, other parameters.
    """
    finished = sum(1 for _ in (folder / POINTS).glob(f"*/{POINT}"))
    if not finished:
        return
    path = folder / MANIFEST
    try:
        _read_manifest(path)
    except DamagedError as problem:
        there = "cannot be read" if path.exists() else "is missing"
        raise ResultsError(
            f"{path} {there}, but finished points lie beside it ({finished}): put the manifest back from a copy, or "
            "measure into another output folder (--out); nothing here was changed"
        ) from problem


def check_resume(folder: Path, request: RunRequest) -> None:
    """Whether the run in `folder` (if any) can go on with `request`; writes nothing. Raises ResultsError."""
    with suppress(DamagedError):  # no manifest, or one that will be set aside
        manifests.resumed(_read_manifest(folder / MANIFEST), request, folder)


class RunStore:
    """A locked run folder. Made by `open_store`."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest
        self.finished = self._keep_whole_points()

    def point_folder(self, point_id: str) -> Path:
        """Where a point's files lie."""
        return self.folder / POINTS / point_id

    def write_raw(
        self, point_id: str, records: Sequence[RequestRecord], steps: Sequence[StepRecord]
    ) -> dict[str, Any]:
        """Store a point's raw records; returns what `write_point` needs to know of the files.

        Raises:
            ResultsError: they could not be written (then neither is there), or the point is finished.
        """
        if point_id in self.finished:
            raise ResultsError(f"point {point_id} is finished, and a finished point never changes")
        target = self.point_folder(point_id)
        make_folder(target)
        contents = {REQUESTS: requests_to_parquet(records), STEPS: steps_to_parquet(steps)}
        try:
            for name, content in contents.items():
                write_atomically(target / name, content)
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
        return {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for name, content in contents.items()
        }

    def write_point(self, point_id: str, row: Mapping[str, Any], raw: Mapping[str, Any]) -> None:
        """Finish a point: `row` are its numbers (no NaN), `raw` the answer of `write_raw`. Never overwrites."""
        if point_id in self.finished:
            raise ResultsError(f"point {point_id} is finished, and a finished point never changes")
        data = {"schema_version": SCHEMA_VERSION, "point_id": point_id, **row, "files": dict(raw)}
        data = shorten(data, self.folder)
        write_json(self.point_folder(point_id) / POINT, {**data, "digest": digest(data)})
        self.finished.add(point_id)

    def add_server(self, server: Mapping[str, Any]) -> None:
        """Record a launched server (name, argv, environment, identity, log) in the manifest."""
        self.manifest["servers"].append(shorten(dict(server), self.folder))
        self._write_manifest()

    def finish(self, status: Status, problem: BaseException | None = None) -> None:
        """Write how the run ended. When even that fails for `failed`, the first problem is what matters."""
        error = None
        if problem is not None:
            words = str(problem) or "interrupted"
            error = {"kind": type(problem).__name__, "message": shorten(words, self.folder)}
        self.manifest.update(status=status, error=error, ended_at=manifests.now())
        try:
            self._write_manifest()
        except ResultsError:
            if status != "failed":
                raise

    def _write_manifest(self) -> None:
        write_json(self.folder / MANIFEST, self.manifest)

    def _keep_whole_points(self) -> set[str]:
        """Ids of the finished points; whatever is not whole is renamed, an empty folder removed."""
        finished = set()
        for found in sorted((self.folder / POINTS).iterdir()):
            if not found.is_dir() or ".damaged-" in found.name:
                continue
            if not any(found.iterdir()):
                found.rmdir()
                continue
            try:
                check_point(found)
            except DamagedError as problem:
                set_aside(found, str(problem))
            else:
                finished.add(found.name)
        return finished


def digest(point: Mapping[str, Any]) -> str:
    """SHA-256 of a point's content, `digest` itself left out. ValueError when there is a NaN in it."""
    content = {k: v for k, v in point.items() if k != "digest"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def check_point(folder: Path) -> dict[str, Any]:
    """The content of a finished point, after comparing its raw files with their recorded SHA-256.

    Raises:
        DamagedError: unfinished, cut or altered. SchemaError: another schema version.
    """
    point = read_json(folder / POINT)
    if point.get("point_id") != folder.name:
        raise DamagedError(f"{folder / POINT} is of point {point.get('point_id')!r}")
    if point.get("digest") != digest(point):
        raise DamagedError(f"{folder / POINT} is not what was written (its digest differs)")
    for name in (REQUESTS, STEPS):
        recorded = point.get("files", {}).get(name, {}).get("sha256")
        try:
            content = (folder / name).read_bytes()
        except OSError as problem:
            raise DamagedError(f"{folder / name}: {problem}") from problem
        if hashlib.sha256(content).hexdigest() != recorded:
            raise DamagedError(f"{folder / name} is not what was written (its SHA-256 differs)")
    return point


def set_aside(path: Path, reason: str) -> Path:
    """Rename `path` to the first free `<name>.damaged-N` and warn; nothing is deleted."""
    taken = 1
    while (aside := path.with_name(f"{path.name}.damaged-{taken}")).exists():
        taken += 1
    with saying_why(aside):
        path.rename(aside)
    warnings.warn(f"set aside as {aside.name}, to be made anew: {reason}", SetAsideWarning, stacklevel=3)
    return aside


def mark_interrupted(folder: Path, message: str) -> None:
    """Turn a manifest that still says `running`, although nobody writes, into `failed`.

    Does nothing for another status. Raises BusyError when somebody does write.
    """
    with locked(folder, LOCK):
        manifest = read_json(folder / MANIFEST)
        if manifest["status"] == "running":
            error = {"kind": "Interrupted", "message": message}
            manifest.update(status="failed", error=error, ended_at=manifests.now())
            write_json(folder / MANIFEST, manifest)


def _begin(folder: Path, request: RunRequest) -> dict[str, Any]:
    """The manifest to start with, written."""
    path = folder / MANIFEST
    if path.exists():
        try:
            manifest = manifests.resumed(_read_manifest(path), request, folder)
        except DamagedError as problem:
            set_aside(path, str(problem))
            manifest = manifests.new_manifest(request, folder)
    else:
        manifest = manifests.new_manifest(request, folder)
    write_json(path, manifest)
    return manifest


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest in `path`, with every entry there. Raises DamagedError, SchemaError."""
    manifest = read_json(path)
    lost = [name for name in manifests.ENTRIES if name not in manifest]
    if lost:
        raise DamagedError(f"{path}: no {', '.join(lost)} in it")
    return manifest
