"""A run folder -> one HTML file: run the notebook of its kind on it, export, check, write.

A failed run gives a report too, of what was finished, under a banner that says so. A report notebook that
fails itself gives a page with a banner and an error. A page that fails its self-check is not written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from specswitch.metrics.goodput import Limits
from specswitch.plots import catalogue
from specswitch.plots import crossing as crossing_figures
from specswitch.report.banners import banners, title
from specswitch.report.check import Expected, ReportCheckError, failures
from specswitch.results import Run, read_run, table
from specswitch.results.crossing import crossing
from specswitch.results.files import write_atomically

REPORT = "report.html"


class ReportError(RuntimeError):
    """The report notebook failed. The page that was written says so, too."""


def build(run_dir: Path | str, out: Path | str | None = None, limits: Limits | None = None) -> Path:
    """Write the report of the run in `run_dir` to `out` (default `<run_dir>/report.html`); return its path.

    Nothing is measured: stored results only. `limits`: of the goodput, instead of those in the run's
    parameters; a crossing run has no goodput.

    Raises:
        DamagedError, SchemaError: no readable run there.
        ReportError: the report notebook failed; the page with its banner was written all the same.
        ReportCheckError: the page failed a self-check and was not written.
        ResultsError: `out` cannot be written.
    """
    # The notebook itself imports this package: it must not wait for nbconvert and papermill, which it never uses.
    from specswitch.report.execution import execute
    from specswitch.report.export import to_html

    folder = Path(run_dir).absolute()
    run = read_run(folder)
    points = table(run, limits)
    name, parameters, expected = _shown_by(run, points, limits)
    notebook, failure = execute(name, parameters)
    page = to_html(notebook, title(run), banners(run, points, failure))
    for found in failures(page, Expected(tuple(expected))):
        if failure is None or found.name != "figures":
            raise found
    target = folder / REPORT if out is None else Path(out).absolute()
    write_atomically(target, page.encode("utf-8"))
    if failure is not None:
        raise ReportError(f"{name} failed: {failure}. The page with the finished part: {target}")
    return target


def _shown_by(run: Run, points: pd.DataFrame, limits: Limits | None) -> tuple[str, dict[str, Any], list[str]]:
    """The notebook that shows a run of this kind, its parameters, and the figures that it must show."""
    # The bytes of the path as UTF-8 text: in an ASCII locale `str` would hold surrogates.
    folder = os.fsencode(run.folder).decode("utf-8")
    if run.kind == "crossing":
        shown = {"out_dir": folder, "measure": False, "progress": False}
        return "03-crossing.ipynb", shown, crossing_figures.drawable(crossing(run))
    judged = limits or Limits()
    shown = {"run_dir": folder, "ttft_limit_ms": judged.ttft_ms, "tpot_limit_ms": judged.tpot_ms}
    return "02-report.ipynb", shown, catalogue.drawable(points)


__all__ = ["ReportCheckError", "ReportError", "build"]
