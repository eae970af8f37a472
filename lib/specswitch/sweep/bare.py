"""A measuring run without its notebook: for a node that has the engine and a GPU, but no Jupyter.

What is written is an ordinary run folder; `specswitch report DIR`, here or on another machine, makes its page.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TextIO

from specswitch.results.files import make_folder
from specswitch.results.layout import ResultsError
from specswitch.results.lock import locked
from specswitch.results.run import read_run
from specswitch.results.store import mark_interrupted
from specswitch.serving.interrupt import signals_interrupt
from specswitch.sweep.batch import (
    BAD_INPUT,
    BAD_INPUT_ERRORS,
    BATCH_LOCK,
    FAILED,
    OK,
    Outcome,
    in_words,
    resuming,
    what_is_kept,
)
from specswitch.sweep.parameters import RunParameters
from specswitch.sweep.precheck import precheck
from specswitch.sweep.progress import lines
from specswitch.sweep.ray_executor import executor_of
from specswitch.sweep.runner import run_sweep


def run_bare(parameters: RunParameters, stream: TextIO | None = None) -> Outcome:
    """Measure everything that these parameters ask for; the message of a complete run is its folder.

    Args:
        stream: where progress goes (default: standard error).

    Never raises for a failed run; finished points are kept, and `resume` goes on from them.
    """
    try:
        with signals_interrupt():
            plan, folder = parameters.plan(), parameters.run_dir()
            precheck(plan, folder, resume=parameters.resume, hold=parameters.held())
            make_folder(folder)
    except BAD_INPUT_ERRORS as refused:
        return Outcome(BAD_INPUT, str(refused))
    except KeyboardInterrupt as stopped:
        return Outcome(FAILED, f"{in_words(stopped)}: nothing was measured")
    try:
        with locked(folder, BATCH_LOCK), signals_interrupt(), lines(stream or sys.stderr) as tell:
            run_sweep(
                plan,
                folder,
                parameters={**parameters.model_dump(), "out_dir": str(folder)},
                resume=parameters.resume,
                hold=parameters.held(),
                on_progress=tell,
                executor=executor_of(parameters),
            )
    except BAD_INPUT_ERRORS as refused:
        return Outcome(BAD_INPUT, str(refused))
    except (Exception, KeyboardInterrupt) as ended:
        with suppress(ResultsError):  # it may have ended before there was a run
            mark_interrupted(folder, in_words(ended))
            kept = what_is_kept(read_run(folder), resuming(parameters, folder, "--no-notebook"))
            return Outcome(FAILED, f"{in_words(ended)}\n{kept}")
        return Outcome(FAILED, in_words(ended))
    return Outcome(OK, str(folder))
