"""`specswitch soak`: thousands of random requests across the threshold, with every check on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from specswitch.option_types import Number, Whole

if TYPE_CHECKING:
    from specswitch.soak.plan import SpeculatingPath
    from specswitch.soak.run import PathRun


@click.command("soak")
@click.option(
    "--path", "paths", type=click.Choice(["v1", "v2"]), multiple=True, help="Which worker [both]; repeatable."
)
@click.option("--requests", type=Whole(min=1), default=10_000, show_default=True, help="Of each path.")
@click.option(
    "--minutes",
    type=Number(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Of load, all paths together.",
)
@click.option("--threshold", type=Whole(min=1), default=8, show_default=True, help="To be crossed.")
@click.option("-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter of the sweep.")
@click.option("-y", "yaml_texts", multiple=True, metavar="YAML", help="Parameters as a YAML mapping.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for summary and logs.")
def soak_command(
    paths: tuple[SpeculatingPath, ...],
    requests: int,
    minutes: float,
    threshold: int,
    pairs: tuple[tuple[str, str], ...],
    yaml_texts: tuple[str, ...],
    out: Path,
) -> None:
    """Send random requests to a server of each path, more and fewer than the threshold in turns.

    Lengths are random, a twentieth is ended early, the rule changes meanwhile, the engine's and our own checks
    run in every step. Afterwards: nothing may have failed or be left over, memory must not have grown, and a
    twentieth of the greedy outputs is compared with a plain server's. Written into the folder: soak.json and
    the servers' logs. The last line printed is the path of soak.json. Exit code 1 when a path failed.
    """
    from specswitch.metrics.near_ties import near_of
    from specswitch.results.files import make_folder
    from specswitch.results.layout import ResultsError
    from specswitch.results.provenance import collect, shorten
    from specswitch.serving.errors import ServingError
    from specswitch.serving.interrupt import how_interrupted, signals_interrupt
    from specswitch.serving.launch import launch
    from specswitch.soak import identity, outcome
    from specswitch.soak.plan import DEFAULTS, make_plan
    from specswitch.soak.run import soak_path
    from specswitch.sweep.batch import BAD_INPUT_ERRORS
    from specswitch.sweep.given import read_given
    from specswitch.sweep.parameters import SweepParameters

    folder = Path(os.path.abspath(out))
    try:
        parameters = read_given(SweepParameters, pairs, yaml_texts, DEFAULTS)
        plan = make_plan(
            parameters,
            folder,
            paths=list(dict.fromkeys(paths)) or ["v1", "v2"],
            threshold=threshold,
            requests=requests,
            minutes=minutes,
        )
        make_folder(folder)
    except BAD_INPUT_ERRORS as refused:
        _end(2, str(refused))
    about = {**collect(parameters.device), "parameters": shorten(parameters.changed(), folder)}
    runs: list[PathRun] = []

    def write(to: Path) -> Path:
        return outcome.save(plan, runs, to, about)

    try:
        with signals_interrupt():
            for path in plan.servers:
                click.echo(f"{path}: starting a server", err=True)
                runs.append(soak_path(plan, path, folder / f"{path}.log", launch, _tell))
                with suppress(ResultsError):  # told at the end, when it is tried again
                    write(folder)
            click.echo("starting a plain server to compare with", err=True)
            with launch(plan.plain, folder / "plain.log") as plain:
                for run in runs:
                    run.differing = identity.differing(
                        plain.url,
                        run.tally.kept,
                        plan.request_timeout_s,
                        near=near_of(plan.plain.dtype),
                        api_key=plain.api_key,
                    )
    except (ServingError, identity.NoReferenceError, OSError) as problem:
        click.echo(f"error: {problem}", err=True)
    except KeyboardInterrupt as stopped:
        how, over = how_interrupted(stopped), "no path was over"
        if runs:
            _saved(write, folder, f"{how}; ")
            over = f"{outcome.SUMMARY} holds {', '.join(r.path for r in runs)}"
        _end(1, f"{how}; {over}; kept in {folder}: the servers' logs" + (" and the summary" if runs else ""))
    for run in runs:
        click.echo(outcome.describe(run))
    click.echo(str(_saved(write, folder)))
    sys.exit(0 if len(runs) == len(plan.servers) and not any(map(outcome.faults, runs)) else 1)


def _saved(write: Callable[[Path], Path], folder: Path, before: str = "") -> Path:
    """The summary's path. Where it cannot be written, the end: `before`, and where it is instead."""
    from specswitch.results.layout import ResultsError
    from specswitch.results.rescue import save_or_rescue

    try:
        return save_or_rescue(write, folder)
    except ResultsError as problem:
        _end(1, f"{before}{problem}")


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)
