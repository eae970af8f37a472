"""Which notebooks may run: one tagged cell, not executed before (field cases C2 and C3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specswitch.sweep.batch import notebook_path
from specswitch.sweep.notebook_file import NotebookError, load_template
from specswitch.sweep.parameters import SweepParameters


def altered(tmp_path: Path, alter) -> Path:
    notebook = json.loads(notebook_path(SweepParameters).read_text(encoding="utf-8"))
    alter(notebook)
    copy = tmp_path / "copy.ipynb"
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    return copy


def parameters(notebook: dict) -> dict:
    return next(c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", []))


def test_the_sweep_notebook_may_run() -> None:
    load_template(notebook_path(SweepParameters))


def test_a_lost_tag_is_refused(tmp_path: Path) -> None:
    copy = altered(tmp_path, lambda n: parameters(n)["metadata"].clear())
    with pytest.raises(NotebookError, match=r"has 0 cells with the tag 'parameters'.*property inspector"):
        load_template(copy)


def test_a_second_tagged_cell_is_refused(tmp_path: Path) -> None:
    copy = altered(tmp_path, lambda n: n["cells"].append(parameters(n)))
    with pytest.raises(NotebookError, match="has 2 cells"):
        load_template(copy)


def test_an_executed_notebook_is_refused(tmp_path: Path) -> None:
    injected = {"cell_type": "code", "metadata": {"tags": ["injected-parameters"]}, "source": "repeats = 9"}
    copy = altered(tmp_path, lambda n: n["cells"].insert(3, injected))
    with pytest.raises(NotebookError, match=r"output of an earlier run.*run the original"):
        load_template(copy)


def test_an_executed_notebook_without_injected_cell_is_refused(tmp_path: Path) -> None:
    copy = altered(tmp_path, lambda n: n["metadata"].update(papermill={"start_time": "2026-01-01"}))
    with pytest.raises(NotebookError, match="of 2026-01-01"):
        load_template(copy)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"cells": 3, "metadata": {}}', "\x00"])
def test_what_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.ipynb").write_text(content, encoding="utf-8")
    with pytest.raises(NotebookError, match=r"x\.ipynb is no readable notebook"):
        load_template(tmp_path / "x.ipynb")


def test_a_missing_notebook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match=r"none\.ipynb"):
        load_template(tmp_path / "none.ipynb")
