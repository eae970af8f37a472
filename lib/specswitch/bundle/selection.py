"""Which packages of a lock go into the bundle, and why the others do not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from specswitch.bundle.errors import BundleError
from specswitch.bundle.present import Present, reason_to_leave_out
from specswitch.bundle.target import Target
from specswitch.config import project_root
from specswitch.explain import read_given_text

ASKED_FOR = "asked for"


@dataclass(frozen=True, order=True)
class Pin:
    """One package in one version."""

    name: NormalizedName
    version: Version

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Selection:
    """wanted: what goes in, by name. left_out: pins of the lock that do not, each with the reason."""

    wanted: tuple[Pin, ...]
    left_out: Mapping[Pin, str]

    @property
    def held(self) -> frozenset[NormalizedName]:
        """Names that are in the bundle, or left out because the node has them."""
        on_node = {pin.name for pin, why in self.left_out.items() if why != ASKED_FOR}
        return frozenset(on_node | {pin.name for pin in self.wanted})


def lock_path(lock: str) -> Path:
    """The file of `full` or `lean`, or the path that `lock` is. Raises BundleError if there is none."""
    named = lock in ("full", "lean")
    try:
        path = project_root() / "requirements" / f"{lock}.lock" if named else Path(lock)
    except FileNotFoundError as problem:
        raise BundleError(f"lock={lock!r}: {problem}; or give the path of a lock file") from problem
    if not path.is_file():
        raise BundleError(
            f"lock={lock!r}: no file {path}: give full, lean, or the path of a file of NAME==VERSION lines"
        )
    return path


def read_lock(path: Path, target: Target) -> tuple[Pin, ...]:
    """The pins of a lock that hold on the node, by name.

    Raises:
        BundleError: no readable text, a line that is no `NAME==VERSION`, or two versions of one package.
    """
    try:
        lines = read_given_text(path).splitlines()
    except ValueError as problem:
        raise BundleError(
            f"lock={problem}: give full, lean, or a text file of NAME==VERSION lines"
        ) from problem
    pins: dict[NormalizedName, Pin] = {}
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        pin, for_node = _pin(text, target, f"{path.name}, line {number}: {text!r}")
        if for_node and pins.setdefault(pin.name, pin) != pin:
            raise BundleError(
                f"{path.name} pins {pin.name} twice, {pins[pin.name].version} and {pin.version}: keep one"
            )
    if not pins:
        raise BundleError(f"{path} pins nothing for this node: give a file of NAME==VERSION lines")
    return tuple(sorted(pins.values()))


def select(
    pins: Iterable[Pin], present: Mapping[NormalizedName, Present], without: Iterable[str]
) -> Selection:
    """Part the pins: `without` names packages to leave out, `present` is what the node has.

    Raises:
        BundleError: `without` names a package that is not among the pins; or nothing is left.
    """
    pins = tuple(pins)
    names = [pin.name for pin in pins]
    unwanted = {canonicalize_name(name) for name in without}
    for name in sorted(unwanted - set(names)):
        near = difflib.get_close_matches(name, names, n=1)
        cure = f"did you mean {near[0]}?" if near else "leave this option away"
        raise BundleError(f"without={name!r}: the lock has no such package: {cure}")
    left_out = {}
    for pin in pins:
        reason = ASKED_FOR if pin.name in unwanted else reason_to_leave_out(pin.name, pin.version, present)
        if reason is not None:
            left_out[pin] = reason
    return Selection(tuple(pin for pin in pins if pin not in left_out), left_out)


def _pin(text: str, target: Target, where: str) -> tuple[Pin, bool]:
    """The pin of a lock line, and whether its marker holds on the node."""
    try:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        version = Version(specifier.version)
    except (InvalidRequirement, InvalidVersion, ValueError) as problem:
        raise BundleError(f"{where} is no NAME==VERSION: pin it exactly") from problem
    if specifier.operator != "==":
        raise BundleError(f"{where} is no NAME==VERSION: pin it exactly")
    return Pin(canonicalize_name(requirement.name), version), target.wants(requirement.marker)
