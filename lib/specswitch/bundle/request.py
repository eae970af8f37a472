"""What a bundle is asked to hold, and everything about it that can be known wrong before anything slow starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import NormalizedName

from specswitch.bundle.errors import BundleError
from specswitch.bundle.kernels import Cut, parse_cut
from specswitch.bundle.present import Present, read_present
from specswitch.bundle.project import checkout
from specswitch.bundle.selection import Selection, lock_path, read_lock, select
from specswitch.bundle.target import PLATFORM, Target
from specswitch.bundle.wheels import pick
from specswitch.results.files import check_writable
from specswitch.results.layout import ResultsError

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Request:
    """What a user asks for. Paths are absolute.

    lock: `full`, `lean`, or a path. present: the node's package list. kernels: `all`, `sm90`, `sm90+fa3`, ...
    without: packages to leave out. models: model folders to take along. wheels: take wheels from there, not
    from the index. level: of xz.
    """

    out: Path
    python: str = "3.12"
    platform: str = PLATFORM
    lock: str = "full"
    present: Path | None = None
    chunk_mb: int = 60
    kernels: str = "all"
    without: tuple[str, ...] = ()
    models: tuple[Path, ...] = ()
    wheels: Path | None = None
    level: int = 3


@dataclass(frozen=True)
class Plan:
    """A request that can be carried out. present: the node's packages. model_files: name in the bundle -> file."""

    request: Request
    target: Target
    selection: Selection
    present: Mapping[NormalizedName, Present]
    cut: Cut | None
    root: Path
    model_files: dict[str, Path] = field(default_factory=dict)


def plan(request: Request) -> Plan:
    """Check the request and work out what goes in; nothing is fetched or written. Raises BundleError."""
    if request.chunk_mb < 1:
        raise BundleError(f"chunk_mb={request.chunk_mb}: give the size of a chunk in megabytes, 1 or more")
    if not 0 <= request.level <= 9:
        raise BundleError(f"level={request.level}: xz has the levels 0 (fast) to 9")
    _check_out(request.out)
    target = Target(request.python, request.platform)
    cut = parse_cut(request.kernels)
    root = checkout()
    pins = read_lock(lock_path(request.lock), target)
    present = read_present(request.present) if request.present else {}
    selection = select(pins, present, request.without)
    if request.wheels is not None:
        if not request.wheels.is_dir():
            raise BundleError(f"wheels={str(request.wheels)!r} is no folder: give one that holds the wheels")
        pick(request.wheels, selection.wanted, target)
    return Plan(request, target, selection, present, cut, root, _model_files(request.models))


def _check_out(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BundleError(f"out={str(out)!r} exists and is not an empty folder: give a new one")
    try:
        check_writable(out)
    except ResultsError as problem:
        raise BundleError(str(problem)) from problem


def _model_files(models: tuple[Path, ...]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    names: dict[str, Path] = {}
    for model in models:
        if not (model / "config.json").is_file():
            raise BundleError(f"model={str(model)!r} has no config.json: give the folder of a model")
        other = names.setdefault(model.name, model)
        if other != model:
            raise BundleError(f"model={str(model)!r}: {other} has the same name: rename one of the folders")
        here = {f"models/{model.name}/{p.relative_to(model)}": p for p in model.rglob("*") if p.is_file()}
        files.update(here)
    return files
