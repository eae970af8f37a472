"""`specswitch calibrate`: step times of this machine, and the batch table that follows from them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from specswitch.option_types import Number

if TYPE_CHECKING:
    from specswitch.calibration.run import SpeculatingPath
    from specswitch.metrics.break_even import Wave


@click.command("calibrate")
@click.option(
    "--path", type=click.Choice(["v1", "v2"]), default="v2", show_default=True, help="Which worker."
)
@click.option("-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter of the sweep.")
@click.option("-y", "yaml_texts", multiple=True, metavar="YAML", help="Parameters as a YAML mapping.")
@click.option("--accept-length", type=Number(min=1), help="Judge by this one, not the measured one.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
def calibrate_command(
    path: SpeculatingPath,
    pairs: tuple[tuple[str, str], ...],
    yaml_texts: tuple[str, ...],
    accept_length: float | None,
    out: Path,
) -> None:
    """Time plain and speculative steps at each batch size, and say where speculation pays.

    The parameters are those of the sweep; its concurrencies are the batch sizes. Written into the folder:
    calibration.json, and batch-table.json for --speculative-batch-table. The last line printed is the path of
    the table, or of calibration.json where speculation pays nowhere. Exit code 1 and no table where repeats
    differ too much to be believed. What was measured before a failure is kept in unfinished.json.
    """
    from specswitch.calibration import outcome, run
    from specswitch.metrics.break_even import doubts
    from specswitch.results.files import make_folder
    from specswitch.results.layout import ResultsError
    from specswitch.results.provenance import collect, shorten
    from specswitch.results.rescue import save_or_rescue
    from specswitch.serving.errors import ServingError
    from specswitch.serving.interrupt import how_interrupted, signals_interrupt
    from specswitch.sweep.batch import BAD_INPUT_ERRORS
    from specswitch.sweep.given import read_given
    from specswitch.sweep.measure import PointFailedError, StepLogError
    from specswitch.sweep.parameters import SweepParameters

    folder = Path(os.path.abspath(out))
    try:
        plan = run.plan(read_given(SweepParameters, pairs, yaml_texts), path, folder)
        make_folder(folder)
    except BAD_INPUT_ERRORS as refused:
        _end(2, str(refused))
    log = folder / "server.log"
    waves: list[Wave] = []

    def take(wave: Wave) -> None:
        waves.append(wave)
        _tell(wave)

    def failed(why: str) -> NoReturn:
        _end(1, f"{why}; {_kept(path, waves, folder)}; the server's log: {log}")

    click.echo(f"starting a {path} server", err=True)
    try:
        with signals_interrupt(), run.launched(plan, log) as (server, steps_dir):
            run.measure(plan, server, steps_dir, take)
            about = {**collect(plan.parameters.device), "argv": shorten(list(server.argv), folder)}
    except (ServingError, PointFailedError, StepLogError) as problem:
        failed(str(problem))
    except OSError as problem:  # of a server that does not come to rest, too
        failed(f"{problem}: see the log, and calibrate again")
    except KeyboardInterrupt as stopped:
        failed(how_interrupted(stopped))
    about["parameters"] = shorten(plan.parameters.changed(), folder)
    found = outcome.Calibration(path, waves, accept_length)
    click.echo(outcome.describe(found))
    try:
        table = save_or_rescue(lambda to: outcome.save(found, to, about), folder)
    except ResultsError as problem:
        _end(1, str(problem))
    if doubtful := doubts(waves):
        reasons = "\n".join(f"- {d}" for d in doubtful)
        _end(1, f"no table from these step times, calibrate again on a quiet machine:\n{reasons}")
    click.echo(str(table or folder / outcome.CALIBRATION))


def _kept(path: str, waves: list[Wave], folder: Path) -> str:
    """Keep the waves of a calibration that did not come to its end; says where they are."""
    from specswitch.calibration.outcome import save_unfinished
    from specswitch.results.layout import ResultsError
    from specswitch.results.rescue import save_or_rescue

    if not waves:
        return "no step times were kept"
    try:
        return f"step times so far: {save_or_rescue(lambda to: save_unfinished(path, waves, to), folder)}"
    except ResultsError as problem:
        return str(problem)


def _tell(wave: Wave) -> None:
    length = "" if wave.accepted.value is None else f", accept length {wave.accepted.value:.2f}"
    click.echo(
        f"batch {wave.batch} repeat {wave.repeat} {wave.mode}: {wave.step_ms:.2f} ms{length}", err=True
    )


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)
