"""Reports built once per test session (a kernel start each), shared by the report's and the browser's tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from report.runs import ARMS, write_run
from results.crossing_runs import write_crossing
from specswitch.report import build

KINDS = {
    "whole": {"labels": tuple(ARMS), "warmup_s": 0.5, "ttft_limit_ms": 150.0},
    "failed": {"fail_after": 18, "synthetic": True},
}


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="specswitch-test-reports-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def run_of(kind: str) -> Path:
    """A run folder: "whole" has every arm and finished, "failed" ended after 18 of 48 points."""
    return write_run(_scratch() / f"run {kind} é", **KINDS[kind])


@cache
def crossing_report() -> Path:
    """The page of a crossing run with the three sync rules."""
    labels = ("none", "always-v2", *(f"dynamic-v2-t4-{sync}" for sync in ("lazy", "eager", "stale")))
    return build(write_crossing(_scratch() / "crossing é", labels=labels))


@cache
def report_of(kind: str) -> Path:
    """The HTML file built from `run_of(kind)`."""
    return build(run_of(kind))
