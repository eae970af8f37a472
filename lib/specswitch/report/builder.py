"""A run folder -> one HTML file: run the report notebook on it, export, check, write.

A failed run gives a report too, of what was finished, under a banner that says so. A report notebook that
fails itself gives a page with a banner and an error. A page that fails its self-check is not written.
"""

from __future__ import annotations

from pathlib import Path

from specswitch.plots.catalogue import drawable
from specswitch.report.banners import banners, title
from specswitch.report.check import Expected, ReportCheckError, failures
from specswitch.results import read_run, table
from specswitch.results.files import write_atomically

REPORT = "report.html"


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
    # The notebook itself imports this package: it must not wait for nbconvert and papermill, which it never uses.
    from specswitch.report.execution import NOTEBOOK, execute
    from specswitch.report.export import to_html

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


__all__ = ["ReportCheckError", "ReportError", "build"]
