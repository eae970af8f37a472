"""Is this notebook one to run? Exactly one `parameters` cell, and not yet executed by a batch run.

The file is read as plain JSON: the notebook library takes a second to import, and a refusal should be quick.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PARAMETERS, INJECTED = "parameters", "injected-parameters"


class NotebookError(ValueError):
    """A notebook that must not be run in batch. Names the file and the cure."""


def load_template(path: Path) -> dict[str, Any]:
    """The notebook at `path`, checked.

    Without a tagged cell the parameters would silently stay at their defaults; in a notebook that was executed
    before, the values of that run would silently apply again.

    Raises:
        NotebookError: no notebook, not exactly one tagged cell, or already executed.
    """
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        tags, metadata = _all_tags(notebook), notebook["metadata"]
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise NotebookError(f"{path} is no readable notebook of format 4: {problem!r}") from problem
    if INJECTED in tags or "papermill" in metadata:
        ran = metadata.get("papermill", {}).get("start_time", "an unknown time")
        raise NotebookError(
            f"{path} is the output of an earlier run (of {ran}), whose parameters are still in it: run the "
            "original notebook"
        )
    tagged = tags.count(PARAMETERS)
    if tagged != 1:
        raise NotebookError(
            f"{path} has {tagged} cells with the tag 'parameters', exactly one is needed: in JupyterLab, tag "
            "the cell in the property inspector and save"
        )
    return notebook


def _all_tags(notebook: dict[str, Any]) -> list[str]:
    return [tag for cell in notebook["cells"] for tag in cell["metadata"].get("tags", ())]
