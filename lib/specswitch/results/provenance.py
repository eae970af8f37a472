"""Where a measurement comes from: code, packages, machine, models. And texts without this machine's folders."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from specswitch import __version__
from specswitch.config import project_root

PACKAGES = ("sglang", "torch", "transformers", "numpy", "pandas", "pyarrow", "aiohttp", "papermill", "plotly")
GIT_TIMEOUT_S = 10


def collect(device: str) -> dict[str, Any]:
    """Provenance of a run on `device` ("cpu" or "cuda"), ready for JSON. What cannot be found out is None."""
    return {
        "specswitch": __version__,
        **git_state(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": {name: _version(name) for name in PACKAGES},
        "device": device_string(device),
    }


def git_state() -> dict[str, Any]:
    """`git_commit` and `git_dirty` (tracked files differ from it) of the checkout; None outside of one."""
    commit = _output("git", "rev-parse", "HEAD")
    status = _output("git", "status", "--porcelain", "--untracked-files=no")
    return {"git_commit": commit, "git_dirty": None if commit is None or status is None else bool(status)}


def device_string(device: str) -> str:
    """The processor or the GPUs in words, e.g. `2 x Xeon ...` or `1 x H200, driver 570.1`."""
    if device == "cuda":
        listed = _output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        names = [line.strip() for line in (listed or "").splitlines() if line.strip()]
        return "; ".join(f"{names.count(n)} x {n}" for n in dict.fromkeys(names)) or "unknown GPU"
    return f"{_usable_cores()} x {_processor()}"


def shorten(value: Any, run_dir: Path | None = None) -> Any:
    """`value` (any JSON-like thing) with this machine's folders in its texts replaced by names.

    `$RUN` the run folder, `$PROJECT` the checkout, `$ENV` the Python environment, `$TMP`, `$HOME`.
    """
    if isinstance(value, str):
        for pattern, name in _folders(run_dir):
            value = pattern.sub(name, value)
        return value
    if isinstance(value, dict):
        return {k: shorten(v, run_dir) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shorten(v, run_dir) for v in value]
    return value


def lengthen(value: Any, run_dir: Path) -> Any:
    """`shorten` read backwards, on this machine."""
    if isinstance(value, str):
        for name, folder in _named_folders(run_dir).items():
            value = value.replace(name, folder)
        return value
    if isinstance(value, dict):
        return {k: lengthen(v, run_dir) for k, v in value.items()}
    if isinstance(value, list):
        return [lengthen(v, run_dir) for v in value]
    return value


def _folders(run_dir: Path | None) -> list[tuple[re.Pattern[str], str]]:
    longest_first = sorted(_named_folders(run_dir).items(), key=lambda item: -len(item[1]))
    return [(re.compile(re.escape(f) + r"(?![\w.-])"), name) for name, f in longest_first if f != "/"]


def _named_folders(run_dir: Path | None) -> dict[str, str]:
    named = {"$ENV": sys.prefix, "$TMP": tempfile.gettempdir(), "$HOME": str(Path.home())}
    with suppress(FileNotFoundError):  # installed without a checkout
        named["$PROJECT"] = str(project_root())
    if run_dir is not None:
        named["$RUN"] = str(run_dir)
    return named


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _output(*command: str) -> str | None:
    """What the command prints, None when it is not there or fails."""
    try:
        root = project_root()
    except FileNotFoundError:
        root = Path.cwd()
    try:
        done = subprocess.run(
            command,
            cwd=root,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
