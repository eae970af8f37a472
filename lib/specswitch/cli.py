"""The `specswitch` command: thin, every verb calls into the library. Exit codes: 0 success, 1 failure, 2 bad input."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from specswitch.serving import commands as server_commands


@click.group()
def main() -> None:
    """A workbench for dynamic speculation disable with EAGLE-3 in SGLang."""


@main.command("sweep")
@click.option("-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="One parameter; repeatable.")
@click.option("-y", "yaml_texts", multiple=True, metavar="YAML", help="Parameters as a YAML mapping.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder (default: a new one in reports/).")
@click.option("--resume", is_flag=True, help="Go on in an existing run folder: measure what is missing.")
@click.option("--dry-run", is_flag=True, help="Check everything and show what would be done.")
def sweep_command(
    pairs: tuple[tuple[str, str], ...],
    yaml_texts: tuple[str, ...],
    out: Path | None,
    resume: bool,
    dry_run: bool,
) -> None:
    """Measure: run the sweep notebook in batch and build its report.

    The parameters are those of notebooks/01-sweep.ipynb. The last line printed is the path of the report.
    """
    _want_utf8()
    from specswitch.sweep.given import read_given
    from specswitch.sweep.parameters import ParameterError

    options = [("out_dir", os.path.abspath(out))] if out is not None else []
    options += [("resume", "true")] if resume else []
    try:
        asked = read_given([*pairs, *options], yaml_texts)
    except ParameterError as problem:
        _end(2, str(problem))
    from specswitch import report
    from specswitch.sweep import batch

    try:
        if dry_run:
            folder, checked = batch.check(asked)
            click.echo(f"{checked.describe()}\nNothing was started; results would go to {folder}")
            return
    except batch.BAD_INPUT_ERRORS as problem:
        _end(batch.BAD_INPUT, str(problem))
    outcome = batch.run_batch(asked, report.build)
    if outcome.exit_code:
        click.echo(f"error: {outcome.message}", err=True)
    if outcome.report is not None:
        click.echo(str(outcome.report))
    sys.exit(outcome.exit_code)


@main.command("report")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="The page (default: report.html in the run folder)."
)
def report_command(run_dir: Path, out: Path | None) -> None:
    """Build the report of a stored run again, from its files alone; prints the path of the page."""
    _want_utf8()
    from specswitch import report
    from specswitch.results.layout import ResultsError

    try:
        click.echo(str(report.build(run_dir, out)))
    except ResultsError as problem:
        _end(2, str(problem))
    except (report.ReportError, report.ReportCheckError) as problem:
        _end(1, str(problem))


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


def _want_utf8() -> None:
    """Start again in UTF-8 mode where the locale would have it otherwise: a path may hold any letter."""
    if sys.getfilesystemencoding() == "utf-8" and (sys.stdout.encoding or "").lower().startswith("utf"):
        return
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"}
    environment["PYTHONUTF8"] = "1"
    os.execve(sys.executable, [sys.executable, "-m", "specswitch", *sys.argv[1:]], environment)


for _command in server_commands.COMMANDS:
    main.add_command(_command)
