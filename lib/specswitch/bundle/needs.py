"""What the packages of a bundle need and neither the bundle nor the node's list holds: the node must have it."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

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
    for wheel in wheels:
        name, requirements = _metadata(wheel)
        for requirement in map(Requirement, requirements):
            needed = canonicalize_name(requirement.name)
            if needed in held or not target.wants(requirement.marker):
                continue
            there = present.get(needed)
            if there is None or not _meets(there, requirement):
                found.setdefault(f"{needed}{requirement.specifier}", set()).add(name)
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
