"""What the tests of notebooks share."""

from __future__ import annotations

from typing import Any

from specswitch.sweep.notebook_file import PARAMETERS


def parameters_cell(notebook: dict[str, Any]) -> dict[str, Any]:
    """The values that the cell tagged `parameters` assigns, found by running it alone."""
    cell = next(c for c in notebook["cells"] if PARAMETERS in c["metadata"].get("tags", ()))
    namespace: dict[str, Any] = {}
    exec("".join(cell["source"]), namespace)
    return {k: v for k, v in namespace.items() if not k.startswith("_")}
