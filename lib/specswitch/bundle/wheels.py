"""Wheels for the node's Python and platform: fetched by pip, or picked from a folder."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from specswitch.bundle.child import child
from specswitch.bundle.errors import BundleError
from specswitch.bundle.installer import InstallError, pip_command
from specswitch.bundle.selection import Pin
from specswitch.bundle.target import Target


def download(pins: Iterable[Pin], target: Target, folder: Path, tell: Callable[[str], None]) -> None:
    """Have pip fetch the wheels of `pins` for the node into `folder`, without their dependencies.

    Raises:
        BundleError: no pip, or a wheel that cannot be had; names the package, in pip's own words.
    """
    try:
        pip, environment = pip_command()
    except InstallError as problem:
        raise BundleError(
            f"no wheels without pip: {problem}; or give their folder with --wheels"
        ) from problem
    with tempfile.TemporaryDirectory() as scratch:
        listed = Path(scratch) / "wanted.txt"
        listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        command = [*pip, "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
        command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        command += ["--implementation=cp", f"--python-version={target.python}"]
        command += [f"--platform={platform}" for platform in target.platforms]
        # What pip leaves when it is killed goes with `scratch`.
        complaints = _run([*command, "--requirement", str(listed)], {**environment, "TMPDIR": scratch}, tell)
    if complaints is not None:
        package = re.search(r"(?:requirement|found for|download|install) ([\w.-]+==[\w.!+-]+)", complaints)
        raise BundleError(
            f"pip could not fetch {package[1] if package else 'the wheels'} for Python {target.python} on "
            f"{target.platform}: {complaints}\nCheck the network and the package index, name a newer platform, leave "
            "the package away (--without NAME), or fetch the wheels elsewhere and give their folder (--wheels DIR)"
        )


def pick(folder: Path, pins: Iterable[Pin], target: Target) -> dict[Pin, Path]:
    """The wheel in `folder` that suits the node best, for each pin.

    Raises:
        BundleError: a pin without a wheel; says which other versions or platforms lie there.
    """
    offered: dict[str, list[tuple[int | None, Version, Path]]] = {}
    for path in sorted(folder.glob("*.whl")):
        try:
            name, version, _, tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename as problem:
            raise BundleError(f"wheels={str(folder)!r}: {problem}: take the file away") from problem
        ranks = [target.ranks[tag] for tag in tags if tag in target.ranks]
        offered.setdefault(name, []).append((min(ranks, default=None), version, path))
    picked, missing = {}, []
    for pin in pins:
        there = offered.get(pin.name, [])
        fits = [
            (rank, path) for rank, version, path in there if rank is not None and _same(pin.version, version)
        ]
        if fits:
            picked[pin] = min(fits)[1]
        else:
            lying = ", ".join(path.name for _, _, path in there)
            missing.append(f"{pin} ({lying})" if lying else str(pin))
    if missing:
        raise BundleError(
            f"wheels={str(folder)!r} has nothing for Python {target.python} on {target.platform} for "
            f"{'; '.join(missing)}: put the wheels there, or leave the packages away (--without NAME)"
        )
    return picked


def _same(wanted: Version, offered: Version) -> bool:
    """As pip compares: a version without a local label takes any label."""
    return wanted == offered or (wanted.local is None and wanted.public == offered.public)


def _run(command: list[str], environment: dict[str, str], tell: Callable[[str], None]) -> str | None:
    """Run pip, passing on what it collects; None if all went well, else its complaints."""
    complaints: list[str] = []
    with child(command, environment) as pip:
        assert pip.stdout is not None
        for line in map(str.strip, pip.stdout):
            if line.startswith(("Collecting ", "Processing ")):  # from an index, from a folder
                tell(f"fetching {Path(line.split(' (from')[0].split(maxsplit=1)[1]).name}")
            elif line.startswith("ERROR:"):
                complaints.append(
                    re.sub(r" \(from versions: .{60,}\)", "", line.removeprefix("ERROR:").strip())
                )
    return None if pip.returncode == 0 else " ".join(complaints) or f"exit code {pip.returncode}"
