"""Write the locks from `direct.in`: full.lock (uv), lean.lock (full minus drops), env.yml's pip section.

Run by `make lock`. `python requirements/locks.py --derive` redoes only what follows from full.lock.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENV_YML = HERE.parent / "env.yml"


def name_of(line: str) -> str:
    """Distribution name of a lock line, normalised."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>;\s\[]", line.strip(), maxsplit=1)[0]).lower()


def drops() -> set[str]:
    """Names listed in lean-drops.txt."""
    lines = (HERE / "lean-drops.txt").read_text(encoding="utf-8").splitlines()
    return {name_of(line.split(":")[0]) for line in lines if line.strip() and not line.startswith("#")}


def lean_lines(full: list[str]) -> list[str]:
    """The full lock without the drops; refuses a drop that the lock does not hold."""
    unknown = drops() - {name_of(line) for line in full}
    if unknown:
        raise SystemExit(f"lean-drops.txt names packages that full.lock does not hold: {sorted(unknown)}")
    return [line for line in full if name_of(line) not in drops()]


def env_yml(lean: list[str]) -> str:
    """env.yml: Python from conda, everything else by pip with the lean pins."""
    pins = "\n".join(f'      - "{line}"' for line in lean)
    return (
        "# For conda users; the same pins as requirements/lean.lock (written by `make lock`, compared by a test).\n"
        "# The list is complete: create it with PIP_NO_DEPS=1 so that pip does not pull the GPU-only packages back\n"
        "# (`PIP_NO_DEPS=1 conda env create -f env.yml`), then `pip install --no-deps -e .` inside it.\n"
        "name: specswitch\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.11\n  - pip\n  - pip:\n"
        f"{pins}\n"
    )


def main() -> None:
    """Resolve (unless --derive) and derive."""
    full_path = HERE / "full.lock"
    if "--derive" not in sys.argv:
        subprocess.run(
            [
                "uv",
                "pip",
                "compile",
                "--universal",
                "--python-version",
                "3.11",
                "--no-annotate",
                "--no-header",
                "-q",
                str(HERE / "direct.in"),
                "-o",
                str(full_path),
            ],
            check=True,
        )
    full = [line for line in full_path.read_text(encoding="utf-8").splitlines() if line.strip()]
    lean = lean_lines(full)
    (HERE / "lean.lock").write_text("\n".join(lean) + "\n", encoding="utf-8")
    ENV_YML.write_text(env_yml(lean), encoding="utf-8")


if __name__ == "__main__":
    main()
