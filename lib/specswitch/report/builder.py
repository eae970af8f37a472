"""A run folder -> one HTML file: run the report notebook on it, export, check, write.

A failed run gives a report too, of what was finished, under a banner that says so. A report notebook that
fails itself gives a page with a banner and an error. A page that fails its self-check is not written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pandas as pd
from nbformat import NotebookNode

from specswitch.config import project_root
from specswitch.plots.catalogue import drawable
from specswitch.report.check import Expected, ReportCheckError, failures
from specswitch.report.export import Banner, to_html
from specswitch.report.overview import model_names, state
from specswitch.report.scrub import scrub
from specswitch.results import Run, read_run, table
from specswitch.results.files import write_atomically
from specswitch.results.tables import FINISHED

NOTEBOOK = "02-report.ipynb"
REPORT = "report.html"
CELL_TIMEOUT_S = 300
KERNEL_TIMEOUT_S = 180


class ReportError(RuntimeError):
    """The report notebook failed. The page that was written says so, too."""


def build(run_dir: Path | str, out: Path | str | None = None) -> Path:
    """Write the report of the run in `run_dir` to `out` (default `<run_dir>/report.html`); return its path.

    Nothing is measured: stored results only.

    Raises:
        DamagedError, SchemaError: no readable run there.
        ReportError: the report notebook failed; the page with its banner was written all the same.
        ReportCheckError: the page failed a self-check and was not written.
        ResultsError: `out` cannot be written.
    """
    folder = Path(run_dir).absolute()
    run = read_run(folder)
    points = table(run)
    notebook, failure = execute(folder)
    page = to_html(notebook, title(run), banners(run, points, failure))
    for found in failures(page, Expected(tuple(drawable(points)))):
        if failure is None or found.name != "figures":
            raise found
    target = folder / REPORT if out is None else Path(out).absolute()
    write_atomically(target, page.encode("utf-8"))
    if failure is not None:
        raise ReportError(f"{NOTEBOOK} failed: {failure}. The page with the finished part: {target}")
    return target


def execute(folder: Path) -> tuple[NotebookNode, str | None]:
    """Run the report notebook on a run folder in a kernel of its own.

    Returns the executed notebook and, when it failed, why. The executed copy holds this machine's paths
    and is thrown away.
    """
    import papermill

    source = project_root() / "notebooks" / NOTEBOOK
    with tempfile.TemporaryDirectory(prefix="specswitch-report-") as scratch, utf8_children():
        executed = Path(scratch) / NOTEBOOK
        failure = None
        try:
            papermill.execute_notebook(
                str(source),
                str(executed),
                parameters={"run_dir": os.fsencode(folder).decode("utf-8")},
                kernel_name="python3",
                progress_bar=False,
                execution_timeout=CELL_TIMEOUT_S,
                start_timeout=KERNEL_TIMEOUT_S,
                extra_arguments=["--log-level=ERROR"],
            )
        except Exception as problem:  # papermill passes on whatever the kernel client raises
            failure = scrub(_last_line(problem))
        kept = executed if executed.exists() else source
        return nbformat.read(kept, as_version=4), failure


@contextmanager
def utf8_children() -> Iterator[None]:
    """Let processes started meanwhile use UTF-8, whatever the locale: a path may hold any letter."""
    before = os.environ.get("PYTHONUTF8")
    os.environ["PYTHONUTF8"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONUTF8"]
        else:
            os.environ["PYTHONUTF8"] = before


def title(run: Run) -> str:
    """Page title: state first, so that it shows in a tab."""
    marks = ["FAILED: "] * (run.status == "failed") + ["SYNTHETIC: "] * bool(run.manifest["synthetic"])
    return f"{''.join(marks)}Specswitch sweep, {scrub(model_names(run)[0])}"


def banners(run: Run, points: pd.DataFrame, failure: str | None = None) -> list[Banner]:
    """What a reader must know before any number."""
    found = []
    done = int((points["status"] == FINISHED).sum())
    if run.status == "failed":
        found.append(
            Banner("failed", "FAILED.", f"{scrub(run.error or '')} This page shows what was finished.")
        )
    elif run.status == "running":
        found.append(Banner("note", "Still running.", f"{done} of {len(points)} points so far."))
    elif done < len(points):
        found.append(Banner("failed", "INCOMPLETE.", state(run, points)))
    if failure is not None:
        found.append(Banner("failed", "REPORT FAILED.", failure))
    if run.manifest["synthetic"]:
        found.append(
            Banner(
                "synthetic",
                "SYNTHETIC.",
                "Acceptance was simulated by the engine: speeds can be studied, outputs mean nothing.",
            )
        )
    return found


def _last_line(problem: Exception) -> str:
    """`Name: message` of the error in a cell, else of the exception itself."""
    name, value = getattr(problem, "ename", type(problem).__name__), getattr(problem, "evalue", str(problem))
    return f"{name}: {value}".strip()


__all__ = ["ReportCheckError", "ReportError", "build"]
