"""The change that the wrong-file replay uses: a plugin that the engine's loader finds, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from serving.support import clean_environment
from specswitch.serving.code_path import EAGLE3
from specswitch.serving.wrong_file import NAME, replay, write_change

LIST = """
import json
from importlib.metadata import entry_points
found = entry_points(group="sglang.srt.plugins")
print(json.dumps({e.name: e.value for e in found if e.name == "somebodys_change"}))
"""


def test_the_engine_finds_the_change_in_its_folder(tmp_path: Path) -> None:
    variables = write_change(tmp_path)
    assert variables["SGLANG_PLUGINS"].split(",") == ["specswitch", NAME]
    listed = subprocess.run(
        [sys.executable, "-c", LIST],
        env=clean_environment(PYTHONPATH=variables["PYTHONPATH"]),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert json.loads(listed.stdout) == {NAME: f"{NAME}:register"}
    compile((tmp_path / f"{NAME}.py").read_text("utf-8"), NAME, "exec")


def test_a_path_that_python_had_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert write_change(tmp_path)["PYTHONPATH"].split(":") == [str(tmp_path), "/mine"]


def test_flags_that_do_not_take_v2_cannot_show_the_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="these take v1: --disable-overlap-schedule"):
        replay([*EAGLE3, "--disable-overlap-schedule"], {}, tmp_path)
    assert not (tmp_path / f"{NAME}.py").exists()
