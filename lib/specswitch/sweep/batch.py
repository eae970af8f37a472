"""A measuring notebook as a batch run: strict about its input, judged by its exit and its manifest.

papermill runs the notebook; around it stand the checks that it lacks (names, types, a stale or untagged
notebook, a busy or full folder), the clean end on every signal, and the report, which is built in any case.
A killed kernel leaves metadata that says "completed", so metadata is never asked.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from specswitch.config import project_root
from specswitch.results.files import make_folder, write_json
from specswitch.results.layout import MANIFEST, ResultsError
from specswitch.results.lock import locked
from specswitch.results.provenance import shorten
from specswitch.results.run import Run, read_run
from specswitch.results.store import mark_interrupted
from specswitch.serving.errors import PreflightError
from specswitch.serving.interrupt import how_interrupted, signals_interrupt
from specswitch.sweep.eta import ahead
from specswitch.sweep.follow import follow
from specswitch.sweep.notebook_file import NotebookError, load_template
from specswitch.sweep.parameters import ParameterError, RunParameters
from specswitch.sweep.precheck import Checked, precheck

EXECUTED = "executed.ipynb"
BATCH_LOCK = ".batch.lock"
START_TIMEOUT_S = 120
OK, FAILED, BAD_INPUT = 0, 1, 2
ONE_AFTER_THE_OTHER = (
    "not enough free memory for all servers at once: one after the other, drift is not shared"
)
BAD_INPUT_ERRORS = (ParameterError, NotebookError, ResultsError, PreflightError)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a batch run ended: exit code (0 complete, 1 failed, 2 bad input), what to say, the report if any."""

    exit_code: int
    message: str
    report: Path | None = None


def notebook_path(kind: type[RunParameters]) -> Path:
    """The notebook of the checkout that takes these parameters."""
    return project_root() / "notebooks" / kind.NOTEBOOK


def check(parameters: RunParameters, notebook: Path | None = None) -> tuple[Path, Checked]:
    """Everything that can be refused before something is started; returns the run folder and the run.

    Raises:
        ParameterError, NotebookError, ResultsError, PreflightError: bad input (`BAD_INPUT_ERRORS`).
    """
    load_template(notebook or notebook_path(type(parameters)))
    plan, folder = parameters.plan(), parameters.run_dir()
    return folder, precheck(plan, folder, resume=parameters.resume, hold=parameters.held())


def dry_run(parameters: RunParameters, notebook: Path | None = None) -> Outcome:
    """All of `check`, and in words what would be done."""
    try:
        folder, checked = check(parameters, notebook)
    except BAD_INPUT_ERRORS as refused:
        return Outcome(BAD_INPUT, str(refused))
    left = ahead(checked.points, folder, one_server=parameters.held() == "one")
    return Outcome(
        OK, f"{checked.describe()}\n{left.text()}.\nNothing was started; results would go to {folder}"
    )


def run_batch(
    parameters: RunParameters,
    build_report: Callable[[Path], Path],
    *,
    notebook: Path | None = None,
    stream: TextIO | None = None,
) -> Outcome:
    """Run the notebook of these parameters, then build its report, whatever happened.

    Args:
        build_report: makes the page of a run folder and returns its path (`report.build`).
        notebook: another notebook than the checkout's.
        stream: where progress goes (default: standard error).

    Never raises for a failed run; see `Outcome`.
    """
    source = notebook or notebook_path(type(parameters))
    folder: Path | None = None
    try:
        with signals_interrupt():
            folder, checked = check(parameters, source)
            make_folder(folder)
            if parameters.hold == "auto" and parameters.device == "cpu" and parameters.held() == "one":
                print(ONE_AFTER_THE_OTHER, file=stream or sys.stderr)
            with locked(folder, BATCH_LOCK):
                problem = _execute(source, parameters, folder, checked, stream or sys.stderr)
                return _outcome(folder, problem, build_report, resuming(parameters, folder))
    except BAD_INPUT_ERRORS as refused:
        return Outcome(BAD_INPUT, str(refused))
    except KeyboardInterrupt as stopped:  # before the notebook ran, or while the page was built
        return Outcome(FAILED, _stopped_beside(folder, how_interrupted(stopped), parameters))


def _stopped_beside(folder: Path | None, how: str, parameters: RunParameters) -> str:
    """What to say when nothing was being measured: what is there, and how to go on."""
    try:
        run = None if folder is None else read_run(folder)
    except ResultsError:
        run = None
    if folder is None or run is None:
        return f"{how}: nothing was measured"
    if run.missing:
        return f"{how}\n{what_is_kept(run, resuming(parameters, folder))}"
    page = shlex.join(["specswitch", "report", str(folder)])
    return f"{how}\nall points ({len(run.points)}) are kept; the page is made by: {page}"


def _execute(
    source: Path, parameters: RunParameters, folder: Path, checked: Checked, stream: TextIO
) -> BaseException | None:
    """Run the notebook in a kernel of its own; keeps the executed copy. Returns what ended it early."""
    import papermill

    from specswitch.kernel import kernel_manager_in

    logging.getLogger("papermill").setLevel(logging.ERROR)  # it announces what we tell ourselves
    logging.getLogger("asyncio").setLevel(
        logging.CRITICAL
    )  # an interrupted notebook client leaves tasks behind
    values = {**parameters.changed(), "out_dir": str(folder), "progress": False}
    problem: BaseException | None = None
    left = ahead(checked.points, folder, one_server=parameters.held() == "one")
    with (
        tempfile.TemporaryDirectory(prefix="specswitch-", ignore_cleanup_errors=True) as scratch,
        follow(folder, len(checked.points), stream, left),
    ):
        executed = Path(scratch) / EXECUTED
        try:
            with signals_interrupt():
                papermill.execute_notebook(
                    source,
                    executed,
                    parameters=values,
                    kernel_name="python3",
                    kernel_manager_class=kernel_manager_in(Path(scratch)),
                    resources={"metadata": {"path": str(project_root())}},
                    progress_bar=False,
                    start_timeout=START_TIMEOUT_S,
                )
        except (Exception, KeyboardInterrupt) as ended:
            problem = ended
        with suppress(OSError, ValueError):
            _keep(executed, folder)
    return problem


def _keep(executed: Path, folder: Path) -> None:
    """Store the executed notebook in the run folder, without this machine's folders in it."""
    notebook = shorten(json.loads(executed.read_text(encoding="utf-8")), folder)
    write_json(folder / EXECUTED, notebook)


def resuming(parameters: RunParameters, folder: Path, *options: str) -> str:
    """The command that goes on with a run which ended early."""
    words = ["specswitch", parameters.COMMAND, *options, "--resume", "--out", str(folder)]
    return shlex.join(words)


def what_is_kept(run: Run, go_on: str) -> str:
    """Of a run which ended early: how much of it is there, and how to go on."""
    return f"{len(run.points)} of {len(run.manifest['points'])} points are kept; go on with: {go_on}"


def _outcome(
    folder: Path, problem: BaseException | None, build_report: Callable[[Path], Path], go_on: str
) -> Outcome:
    """Judge the run by what ended it and by its manifest, and build the report.

    `go_on`: the command to go on with, told when points are missing.
    """
    reason = None if problem is None else in_words(problem)
    code = OK if problem is None else BAD_INPUT if _is_bad_input(problem) else FAILED
    if not (folder / MANIFEST).is_file():
        return Outcome(code or FAILED, reason or "the notebook ended without starting a run")
    try:
        mark_interrupted(folder, reason or "the notebook ended before the run did")
        run = read_run(folder)
        reason = reason or run.error
        if run.missing:
            reason = (
                reason or f"{len(run.missing)} points are missing, the first is {run.missing[0]['point_id']}"
            )
            reason = f"{reason}\n{what_is_kept(run, go_on)}"
    except ResultsError as damaged:
        reason = reason or str(damaged)
    code = code if reason is None else code or FAILED
    try:
        page = build_report(folder)
    except Exception as broken:
        return Outcome(code or FAILED, f"{reason or 'the run is complete'}; no report: {broken}")
    return Outcome(code, reason or "complete", page)


def in_words(problem: BaseException) -> str:
    """What ended a run, in one line."""
    if isinstance(problem, KeyboardInterrupt):
        return how_interrupted(problem)
    name, value = getattr(problem, "ename", None), getattr(problem, "evalue", None)
    if name is not None:
        return f"{name}: {value}" if value else str(name)
    if type(problem).__name__ == "DeadKernelError":
        return "the notebook's kernel died"
    return f"{type(problem).__name__}: {problem}"


def _is_bad_input(problem: BaseException) -> bool:
    """Whether a cell ended with one of our errors for bad input (a full disk in mid-run, say)."""
    if isinstance(problem, OSError):
        return True
    return getattr(problem, "ename", None) in _names(BAD_INPUT_ERRORS)


def _names(kinds: tuple[type[BaseException], ...]) -> set[str]:
    below = {name for kind in kinds for name in _names(tuple(kind.__subclasses__()))}
    return {kind.__name__ for kind in kinds} | below
