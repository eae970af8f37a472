"""Copies of the notebooks: made, following their originals, and never touched once their user has changed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from notebooks.support import parameters_cell
from specswitch.config import project_root
from specswitch.lab import copies
from specswitch.results.layout import ResultsError
from specswitch.sweep.notebook_file import load_template


def notebook(source: str, **metadata: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": "a", "metadata": {"tags": ["parameters"]}, "source": [source]}
    cell |= {"outputs": [], "execution_count": None}
    return {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def change(copy: Path, source: str) -> None:
    content = read(copy)
    content["cells"][0]["source"] = [source]
    write(copy, content)


def run(copy: Path) -> None:
    """What Jupyter changes when a notebook is run and saved."""
    content = read(copy)
    content["cells"][0] |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": ["1"]}]}
    content["cells"][0] |= {"execution_count": 3}
    content["cells"][0]["metadata"] |= {"trusted": True}
    content["metadata"] |= {"language_info": {"name": "python", "version": "3.11.7"}}
    write(copy, content)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of the original `a.ipynb`, and the folder of the copies, brought once."""
    originals, mine = tmp_path / "notebooks", tmp_path / "notebooks" / "mine"
    originals.mkdir()
    write(originals / "a.ipynb", notebook("x = 1", kernelspec={"name": "python3"}))
    assert copies.bring(originals, mine) == []
    return originals, mine


def source(copy: Path) -> str:
    return "".join(read(copy)["cells"][0]["source"])


def test_a_copy_is_the_original_and_the_folder_ignores_itself(places: tuple[Path, Path]) -> None:
    originals, mine = places
    assert read(mine / "a.ipynb")["cells"] == read(originals / "a.ipynb")["cells"]
    assert read(mine / "a.ipynb")["metadata"]["kernelspec"] == {"name": "python3"}
    assert (mine / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_a_changed_copy_is_kept_in_silence_while_the_original_is_the_same(places: tuple[Path, Path]) -> None:
    originals, mine = places
    change(mine / "a.ipynb", "x = 2")
    before = (mine / "a.ipynb").read_bytes()
    assert copies.bring(originals, mine) == []
    assert (mine / "a.ipynb").read_bytes() == before


def test_a_copy_that_was_only_run_follows_its_original(places: tuple[Path, Path]) -> None:
    originals, mine = places
    run(mine / "a.ipynb")
    kept = (mine / "a.ipynb").read_bytes()
    assert copies.bring(originals, mine) == []
    assert (mine / "a.ipynb").read_bytes() == kept, "outputs stay while there is nothing newer"
    change(originals / "a.ipynb", "x = 7")
    assert copies.bring(originals, mine) == []
    assert source(mine / "a.ipynb") == "x = 7"
    change(originals / "a.ipynb", "x = 8")
    copies.bring(originals, mine)
    assert source(mine / "a.ipynb") == "x = 8", "and again"


def test_a_changed_copy_is_kept_when_the_original_changes_and_the_user_is_told(
    places: tuple[Path, Path],
) -> None:
    originals, mine = places
    change(mine / "a.ipynb", "x = 2")
    change(originals / "a.ipynb", "x = 7")
    (note,) = copies.bring(originals, mine)
    assert "a.ipynb" in note
    assert "--fresh" in note
    assert source(mine / "a.ipynb") == "x = 2"
    change(mine / "a.ipynb", "x = 7")
    assert copies.bring(originals, mine) == [], "the same change on both sides"


def test_a_damaged_copy_or_one_of_unknown_origin_is_left_alone(places: tuple[Path, Path]) -> None:
    originals, mine = places
    write(mine / "a.ipynb", notebook("x = 5"))
    assert len(copies.bring(originals, mine)) == 1
    assert source(mine / "a.ipynb") == "x = 5"
    (mine / "a.ipynb").write_text("half of a", encoding="utf-8")
    (note,) = copies.bring(originals, mine)
    assert "no readable notebook" in note
    assert (mine / "a.ipynb").read_text(encoding="utf-8") == "half of a"


def test_set_aside_twice_loses_nothing(places: tuple[Path, Path]) -> None:
    originals, mine = places
    for text in ("x = 2", "x = 3"):
        change(mine / "a.ipynb", text)
        copies.set_aside(mine / "a.ipynb")
        copies.bring(originals, mine)
    assert {p.name: source(p) for p in mine.glob("*.ipynb")} == {
        "a.ipynb": "x = 1",
        "a-own1.ipynb": "x = 2",
        "a-own2.ipynb": "x = 3",
    }


@pytest.mark.parametrize(
    "name", ["04-live", "04-live.ipynb", "notebooks/04-live.ipynb", "live", "04"], ids=str
)
def test_a_notebook_is_found_by_its_name_or_a_part_of_it(name: str) -> None:
    assert copies.find(name, project_root() / "notebooks") == "04-live.ipynb"


@pytest.mark.parametrize(
    ("name", "words"), [("nope", "there are 00-code-path"), ("0", "which of 00-"), ("", "there are")]
)
def test_another_name_is_refused_with_the_known_ones(name: str, words: str) -> None:
    with pytest.raises(copies.NoSuchNotebookError, match=words):
        copies.find(name, project_root() / "notebooks")


def test_the_copies_of_the_real_notebooks_are_notebooks_to_run(tmp_path: Path) -> None:
    originals = project_root() / "notebooks"
    copies.bring(originals, tmp_path / "mine")
    names = {p.name for p in originals.glob("*.ipynb")}
    assert {p.name for p in (tmp_path / "mine").glob("*.ipynb")} == names
    for name in names:
        copy = load_template(tmp_path / "mine" / name)
        assert parameters_cell(copy) == parameters_cell(load_template(originals / name))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ResultsError, match="file/mine: Not a directory"):
        copies.bring(project_root() / "notebooks", tmp_path / "file" / "mine")
