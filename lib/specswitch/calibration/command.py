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
    differ too much to be believed.
    """
    from specswitch.calibration import outcome, run
    from specswitch.metrics.break_even import doubts
    from specswitch.results.files import make_folder
    from specswitch.results.provenance import collect, shorten
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
    click.echo(f"starting a {path} server", err=True)
    try:
        with signals_interrupt(), run.launched(plan, folder / "server.log") as (server, steps_dir):
            waves = run.measure(plan, server, steps_dir, _tell)
            about = {**collect(plan.parameters.device), "argv": shorten(list(server.argv), folder)}
    except (ServingError, PointFailedError, StepLogError) as problem:
        _end(1, str(problem))
    except KeyboardInterrupt as stopped:
        how = how_interrupted(stopped)
        _end(1, f"{how}: no step times were kept; the server's log: {folder / 'server.log'}")
    about["parameters"] = shorten(plan.parameters.changed(), folder)
    found = outcome.Calibration(path, waves, accept_length)
    table = outcome.save(found, folder, about)
    click.echo(outcome.describe(found))
    if doubtful := doubts(waves):
        reasons = "\n".join(f"- {d}" for d in doubtful)
        _end(1, f"no table from these step times, calibrate again on a quiet machine:\n{reasons}")
    click.echo(str(table or folder / outcome.CALIBRATION))


def _tell(wave: Wave) -> None:
    length = "" if wave.accepted.value is None else f", accept length {wave.accepted.value:.2f}"
    click.echo(
        f"batch {wave.batch} repeat {wave.repeat} {wave.mode}: {wave.step_ms:.2f} ms{length}", err=True
    )


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)
