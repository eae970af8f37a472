"""A save that fails is tried once more elsewhere, and the error says where the results are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from specswitch.results.files import write_json
from specswitch.results.layout import ResultsError
from specswitch.results.rescue import save_or_rescue


def save(folder: Path) -> Path:
    write_json(folder / "x.json", {"measured": 1})
    return folder / "x.json"


def test_a_folder_that_takes_it_is_all_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: pytest.fail("not needed"))
    assert save_or_rescue(save, tmp_path) == tmp_path / "x.json"


def test_else_the_results_are_where_the_error_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ResultsError, match=r"a file, not a folder.*What was measured is in") as caught:
        save_or_rescue(save, tmp_path / "file")
    (instead,) = tmp_path.glob("specswitch-rescued-*")
    assert str(instead) in str(caught.value)
    assert (instead / "x.json").is_file()


def test_where_nothing_can_be_written_both_reasons_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(
        ResultsError, match=r"a file, not a folder.*nor are temporary files possible: .*nowhere"
    ):
        save_or_rescue(save, tmp_path / "file")
