"""`specswitch bundle`: one folder with what a GPU node without network needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from specswitch.bundle.target import PLATFORM, PYTHONS
from specswitch.option_types import Whole

FOLDER = click.Path(path_type=Path)


@click.command("bundle")
@click.option("--out", type=FOLDER, required=True, help="New folder for the bundle.")
@click.option("--python", type=click.Choice(PYTHONS), default="3.12", show_default=True, help="The node's.")
@click.option(
    "--platform",
    default=PLATFORM,
    show_default=True,
    help="The node's glibc and processor; wheels for older ones are taken too.",
)
@click.option(
    "--lock", default="full", show_default=True, help="full, lean, or a file of NAME==VERSION lines."
)
@click.option("--present", type=FOLDER, help="What the node has: its `python3 -m pip list --format=freeze`.")
@click.option(
    "--chunk-mb", type=Whole(min=1), default=60, show_default=True, help="Largest chunk, 10^6 bytes."
)
@click.option(
    "--kernels",
    default="all",
    show_default=True,
    help="sm90 (Hopper) or sm100 (other GPUs); sm90+fa3 keeps fa3's, 1 GB.",
)
@click.option("--without", multiple=True, metavar="NAME", help="Leave a package out; repeatable.")
@click.option("--model", "models", multiple=True, type=FOLDER, help="Take a model folder along; repeatable.")
@click.option("--wheels", type=FOLDER, help="Take the wheels from this folder; the index is not asked.")
@click.option(
    "--level",
    type=Whole(0, 9),
    default=3,
    show_default=True,
    help="Of xz: 6 is 1/7 smaller, slower; low for weights.",
)
def bundle_command(
    out: Path,
    python: str,
    platform: str,
    lock: str,
    present: Path | None,
    chunk_mb: int,
    kernels: str,
    without: tuple[str, ...],
    models: tuple[Path, ...],
    wheels: Path | None,
    level: int,
) -> None:
    """Make what a GPU node without network needs: wheels, the project, models, and a script that installs them.

    On the node: sh install.sh TARGET. The last line printed is the path of the bundle.
    """
    from specswitch.bundle.build import make
    from specswitch.bundle.errors import BundleError
    from specswitch.bundle.request import MEGABYTE, Request, plan
    from specswitch.results.layout import ResultsError
    from specswitch.serving.interrupt import how_interrupted, signals_interrupt

    request = Request(
        out=_absolute(out),
        python=python,
        platform=platform,
        lock=lock,
        present=_absolute(present) if present else None,
        chunk_mb=chunk_mb,
        kernels=kernels,
        without=without,
        models=tuple(_absolute(model) for model in models),
        wheels=_absolute(wheels) if wheels else None,
        level=level,
    )
    try:
        with signals_interrupt():
            manifest = make(plan(request), _tell)
    except BundleError as problem:
        _end(2, str(problem))
    except ResultsError as problem:
        _end(1, str(problem))
    except KeyboardInterrupt as stopped:
        _end(1, f"{how_interrupted(stopped)}: no bundle was made")
    stream = manifest["stream"]
    _tell(
        f"{len(manifest['wheels'])} wheels ({len(manifest['left_out'])} left out), {stream['bytes'] / MEGABYTE:.1f} MB "
        f"in {stream['chunks']} chunks. Copy the folder to the node, and there: sh install.sh TARGET"
    )
    click.echo(str(request.out))


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)
