"""The project's own part of a bundle: its wheel, built from the checkout, and the files that lie beside it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from specswitch.bundle.child import child
from specswitch.bundle.errors import BundleError
from specswitch.config import project_root

# Any fixed time after 1980, which zip files need.
_BUILD_TIME = "315532800"


def checkout() -> Path:
    """The checkout's root. Raises BundleError outside of one."""
    try:
        return project_root()
    except FileNotFoundError as problem:
        raise BundleError(f"the project's wheel is built from its checkout: {problem}") from problem


def build_wheel(root: Path, folder: Path) -> Path:
    """Build the wheel of the checkout at `root` into `folder`; the checkout itself is left as it is.

    No network: the build needs setuptools, which is in the locks. Raises BundleError.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "source"
        shutil.copytree(
            root / "lib", copy / "lib", ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
        )
        for file in ("pyproject.toml", "README.md"):
            shutil.copyfile(root / file, copy / file)
        made = Path(name) / "made"
        command = [
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--no-isolation",
            "--outdir",
            str(made),
            str(copy),
        ]
        # What the build leaves when it is killed goes with our own folder.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": _BUILD_TIME, "TMPDIR": name}
        with child(command, environment) as building:
            said, _ = building.communicate()
        if building.returncode:
            last = "\n".join(said.strip().splitlines()[-5:])
            raise BundleError(
                f"the project's wheel cannot be built:\n{last}\nThe packages build and setuptools must be installed "
                "here, as the locks have them (make setup)"
            )
        (wheel,) = made.glob("*.whl")
        return Path(shutil.copy(wheel, folder))


def loose_files(root: Path) -> dict[str, Path]:
    """What is not in the wheel and lies beside it on the node: name there -> file here.

    With `pyproject.toml` the unpacked bundle is a project root like a checkout, notebooks and plans included.
    """
    home = root / "notebooks"
    beside = [*sorted(home.glob("*.ipynb")), *sorted(home.glob("plans/*.yaml"))]
    return {"pyproject.toml": root / "pyproject.toml", **{str(p.relative_to(root)): p for p in beside}}
