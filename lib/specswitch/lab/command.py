"""`specswitch lab`: the notebooks in JupyterLab, as the user's own copies, so that the checkout stays as it is."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import NoReturn

import click

from specswitch.config import project_root

MINE = "mine"


@click.command("lab")
@click.argument("notebook", required=False)
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False), help="Your copies [notebooks/mine/]."
)
@click.option("--fresh", is_flag=True, help="Set your copy of NOTEBOOK aside and open a fresh one.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def lab_command(notebook: str | None, folder: Path | None, fresh: bool, options: tuple[str, ...]) -> None:
    """Open NOTEBOOK (04-live, or a part of the name) in JupyterLab, whose own OPTIONS go behind a double dash.

    What opens is your own copy, in a folder that git ignores: change, run and save it as you like. A copy that you
    have not changed follows the original; one that you have is kept, and you are told if the original is newer.
    """
    if notebook is not None and notebook.startswith("-"):  # nothing but JupyterLab's options was given
        options, notebook = (notebook, *options), None
    if fresh and notebook is None:
        _end(2, "--fresh: say which notebook, e.g. specswitch lab --fresh 04-live")
    if importlib.util.find_spec("jupyterlab") is None:
        _end(1, "jupyterlab is not installed here: pip install jupyterlab, or make setup")
    try:
        originals = project_root() / "notebooks"
    except FileNotFoundError as problem:
        _end(2, f"the notebooks lie in the checkout, or in an unpacked bundle: {problem}")
    mine = originals / MINE if folder is None else Path(os.path.abspath(folder))
    opened = _prepared(originals, mine, notebook, fresh)
    if os.geteuid() == 0 and not any("allow-root" in o or "allow_root" in o for o in options):
        where = [] if folder is None else ["--folder", str(folder)]
        words = ["specswitch", "lab", *filter(None, [notebook]), *where, "--", "--allow-root", *options]
        click.echo(
            f"you are root, as whom JupyterLab starts only if it is told to: {shlex.join(words)}", err=True
        )
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={mine}", *options]
    if opened is not None:  # the printed address leads there, too, for a browser on another machine
        command += [f"--LabApp.default_url=/lab/tree/{opened.name}", str(opened)]
    sys.stderr.flush()
    os.execv(sys.executable, command)


def _prepared(originals: Path, mine: Path, notebook: str | None, fresh: bool) -> Path | None:
    """Bring the copies, and find the one to open; ends with exit code 2 where that cannot be."""
    from specswitch.lab import copies
    from specswitch.results.layout import ResultsError

    try:
        opened = None
        if notebook is not None:  # found before anything is written
            folders = (originals,) if fresh else (originals, mine)
            opened = mine / copies.find(notebook, *folders)
        if fresh and opened is not None and opened.exists():
            click.echo(f"your copy is now {copies.set_aside(opened)}", err=True)
        for note in copies.bring(originals, mine):
            click.echo(note, err=True)
        return opened
    except ResultsError as problem:
        _end(2, f"{problem}, with --folder DIR")
    except copies.NoSuchNotebookError as problem:
        _end(2, str(problem))


def _end(code: int, message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)
