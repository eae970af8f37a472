"""A notebook that shows a stored run, executed in a kernel of this very interpreter."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbformat import NotebookNode

from specswitch.config import project_root
from specswitch.kernel import kernel_manager_in
from specswitch.report.scrub import scrub

CELL_TIMEOUT_S = 300
KERNEL_TIMEOUT_S = 180


def execute(name: str, parameters: Mapping[str, Any]) -> tuple[NotebookNode, str | None]:
    """Run the notebook `name` of the checkout with these parameters.

    Returns the executed notebook and, when it failed, why. The executed copy holds this machine's paths
    and is thrown away.
    """
    source = project_root() / "notebooks" / name
    logging.getLogger("papermill").setLevel(logging.ERROR)  # it guesses at the notebook's cells, aloud
    with tempfile.TemporaryDirectory(prefix="specswitch-report-") as scratch:
        executed = Path(scratch) / name
        failure = None
        try:
            papermill.execute_notebook(
                str(source),
                str(executed),
                parameters=dict(parameters),
                kernel_name="python3",
                kernel_manager_class=kernel_manager_in(Path(scratch)),
                progress_bar=False,
                execution_timeout=CELL_TIMEOUT_S,
                start_timeout=KERNEL_TIMEOUT_S,
            )
        except Exception as problem:  # papermill passes on whatever the kernel client raises
            failure = scrub(_in_words(problem))
        kept = executed if executed.exists() else source
        return nbformat.read(kept, as_version=4), failure


def _in_words(problem: Exception) -> str:
    """`Name: message` of the error in a cell, else of the exception itself."""
    name, value = getattr(problem, "ename", type(problem).__name__), getattr(problem, "evalue", str(problem))
    return f"{name}: {value}".strip()
