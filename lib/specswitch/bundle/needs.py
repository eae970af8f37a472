"""What a bundle's packages need: what neither it nor the node holds, and what it holds in a wrong version."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from specswitch.bundle.present import Present
from specswitch.bundle.target import Target


def unmet(
    wheels: Iterable[Path],
    held: Collection[NormalizedName],
    present: Mapping[NormalizedName, Present],
    target: Target,
) -> dict[str, list[str]]:
    """Requirement -> the packages that name it, for the requirements that nothing known meets; both sorted.

    held: what is in the bundle or known to be on the node, in the right version. present: the node's list.
    Extras are not counted.
    """
    found: dict[str, set[str]] = {}
    for user, needed, requirement in _requirements(wheels, target):
        there = present.get(needed)
        if needed not in held and (there is None or not _meets(there, requirement)):
            found.setdefault(f"{needed}{requirement.specifier}", set()).add(user)
    return _sorted(found)


def unfit(
    wheels: Iterable[Path], versions: Mapping[NormalizedName, Version], target: Target
) -> dict[str, list[str]]:
    """Requirement -> the packages that name it, where the bundle holds a version that does not meet it; both sorted.

    versions: those of the bundle's packages. A hand-made lock may be so; some packages ask for more than they need.
    """
    found: dict[str, set[str]] = {}
    for user, needed, requirement in _requirements(wheels, target):
        version = versions.get(needed)
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            found.setdefault(f"{needed}{requirement.specifier}", set()).add(user)
    return _sorted(found)


def _requirements(
    wheels: Iterable[Path], target: Target
) -> Iterator[tuple[str, NormalizedName, Requirement]]:
    """Of every wheel: its name, the name it needs, the requirement; those that count for the target."""
    for wheel in wheels:
        name, lines = _metadata(wheel)
        for requirement in map(Requirement, lines):
            if target.wants(requirement.marker):
                yield name, canonicalize_name(requirement.name), requirement


def _sorted(found: Mapping[str, set[str]]) -> dict[str, list[str]]:
    return {requirement: sorted(found[requirement]) for requirement in sorted(found)}


def _meets(there: Present, requirement: Requirement) -> bool:
    """An unknown version gets the benefit of the doubt."""
    return there.version is None or requirement.specifier.contains(there.version, prereleases=True)


def _metadata(wheel: Path) -> tuple[str, list[str]]:
    """Name and `Requires-Dist` lines of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA") and n.count("/") == 1)
        raw, _ = parse_email(archive.read(member))
    return canonicalize_name(raw["name"]), list(raw.get("requires_dist", ()))
