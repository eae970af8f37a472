"""What the tests of the sweep share: small parameters, and the fake engine in place of SGLang."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from specswitch.results import read_run
from specswitch.serving import argv
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.parameters import SweepParameters

HERE = Path(__file__).parent
FAKE_ENGINE = HERE / "fake_engine.py"


def use_fake_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers started by this process or by its children are fake engines."""
    monkeypatch.setattr(argv, "server_program", lambda: [sys.executable, str(FAKE_ENGINE)])
    monkeypatch.setenv("USE_FAKE_ENGINE", str(FAKE_ENGINE))
    path = [str(HERE / "site"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in path if p))


def servers_left() -> list[psutil.Process]:
    """Running fake engines below this process."""
    below = psutil.Process().children(recursive=True)
    return [p for p in below if _command(p)[1:2] == [str(FAKE_ENGINE)]]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it ended meanwhile; a zombie counts as gone, too
        return []


def gone(pid: int) -> bool:
    """Whether nothing runs under this pid; a zombie does not run."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def small(out_dir: Path | None = None, tricks: dict[str, Any] | None = None, **other: Any) -> SweepParameters:
    """A 2 x 2 sweep of a fraction of a second per point. `tricks`: see `fake_engine.Tricks`."""
    own = {"concurrencies": [1, 2], "warmup_s": 0.0, "window_s": 0.2}
    return SweepParameters.of(_small(out_dir, tricks, {"arms": ["none", "always-v2"], **own, **other}))


def small_crossing(
    out_dir: Path | None = None, tricks: dict[str, Any] | None = None, **other: Any
) -> CrossingParameters:
    """Three arms under a second and a half of a square wave that crosses threshold 2 twice."""
    own = {
        "arms": ["none", "always-v2", "dynamic-v2-t2"],
        "load": "square:low=1,high=6,period=0.6,duration=1.5",
        "warmup_s": 0.0,
    }
    return CrossingParameters.of(_small(out_dir, tricks, {**own, **other}))


def _small(out_dir: Path | None, tricks: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Values that make any run small and quick."""
    values: dict[str, Any] = {
        "repeats": 1,
        "prompt_tokens": 8,
        "output_tokens": 8,
        "ready_timeout_s": 60.0,
        "progress": False,
        "hold": "all",  # not left to the memory that is free just now
        **other,
    }
    if out_dir is not None:
        values["out_dir"] = str(out_dir)
    if tricks:
        values["env"] = [f"FAKE_ENGINE={orjson.dumps(tricks).decode()}"]
    return values


def one_line_page(folder: Path) -> Path:
    """Stands for the report: a page that says how the run ended and how many points it has."""
    run = read_run(folder)
    page = folder / "report.html"
    page.write_text(f"{run.status} {len(run.points)} {run.error}", encoding="utf-8")
    return page
