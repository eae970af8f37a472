"""The notebooks in git: stripped, thin, one parameters cell each with plain values."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from notebooks.support import parameters_cell
from specswitch.config import project_root
from specswitch.sweep.code_path import CodePathParameters
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.notebook_file import load_template
from specswitch.sweep.parameters import RunParameters, SweepParameters
from specswitch.widgets.parameters import LiveParameters

NOTEBOOKS = sorted((project_root() / "notebooks").glob("*.ipynb"))
PLAIN = (str, int, float, bool, type(None))
by_name = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [c for c in cells if c["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    names = {"00-code-path.ipynb", "01-sweep.ipynb", "02-report.ipynb", "03-crossing.ipynb", "04-live.ipynb"}
    assert {p.name for p in NOTEBOOKS} >= names


@by_name
def test_nothing_executed_is_stored(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    assert set(metadata) <= {"kernelspec", "language_info"}
    assert metadata["kernelspec"]["name"] == "python3"


@by_name
def test_exactly_one_parameters_cell_with_plain_values(path: Path) -> None:
    """Field case C2; papermill reads one plain assignment a line."""
    notebook = load_template(path)
    values = parameters_cell(notebook)
    assert values
    for value in values.values():
        assert isinstance(value, PLAIN) or all(isinstance(v, PLAIN) for v in value)
    source = "".join(next(c for c in code_cells(path) if c["metadata"].get("tags"))["source"])
    statements = [ast.parse(line).body for line in source.splitlines()]
    assert all(len(s) == 1 and isinstance(s[0], ast.Assign) and len(s[0].targets) == 1 for s in statements)


@by_name
def test_notebooks_are_thin(path: Path) -> None:
    """Cells call into the library; they define nothing and loop over nothing."""
    for cell in code_cells(path):
        if not cell["metadata"].get("tags"):
            tree = ast.parse("".join(cell["source"]))
            kinds = ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.Try | ast.With
            assert not any(isinstance(node, kinds) for node in ast.walk(tree))
            assert len(tree.body) <= 6


@pytest.mark.parametrize("kind", [SweepParameters, CrossingParameters, CodePathParameters])
def test_a_notebook_lists_every_parameter_with_its_default(
    kind: type[RunParameters] | type[CodePathParameters],
) -> None:
    notebook = load_template(project_root() / "notebooks" / kind.NOTEBOOK)
    assert parameters_cell(notebook) == kind.of_namespace({}).model_dump()


def test_the_live_notebook_names_parameters_that_exist() -> None:
    values = parameters_cell(load_template(project_root() / "notebooks" / "04-live.ipynb"))
    asked = LiveParameters.of_namespace(values)
    assert (asked.url, asked.path) == (None, "v2")
    assert asked.base.changed() == {"max_running_requests": 32}, "else the sweep's own defaults"
