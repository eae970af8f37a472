"""`specswitch lab`: what is brought, opened and said, up to the moment at which JupyterLab takes over."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specswitch.cli import main
from specswitch.lab import command as lab


class Replaced(Exception):
    """Stands for the process becoming JupyterLab."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that took over."""
    commands: list[list[str]] = []

    def execv(program: str, command: list[str]) -> None:
        assert program == sys.executable
        commands.append(command)
        raise Replaced

    monkeypatch.setattr(os, "execv", execv)
    return commands


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["lab", *words])


def test_the_copy_is_opened_with_jupyterlabs_own_options(started: list[list[str]], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    run("live", "--folder", str(mine), "--", "--no-browser", "--port=1")
    head = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={mine}"]
    there = ["--LabApp.default_url=/lab/tree/04-live.ipynb", str(mine / "04-live.ipynb")]
    assert started == [[*head, "--no-browser", "--port=1", *there]]
    assert (mine / "04-live.ipynb").is_file()


def test_without_a_notebook_the_folder_opens(started: list[list[str]], tmp_path: Path) -> None:
    run("--folder", str(tmp_path), "--", "--no-browser")
    assert started == [
        [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={tmp_path}", "--no-browser"]
    ]


def test_the_default_folder_lies_beside_the_notebooks(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(lab, "project_root", lambda: tmp_path)
    run()
    assert started[0][-1] == f"--ServerApp.root_dir={tmp_path / 'notebooks' / 'mine'}"


def test_fresh_sets_the_own_copy_aside(started: list[list[str]], tmp_path: Path) -> None:
    run("04-live", "--folder", str(tmp_path))
    copy = tmp_path / "04-live.ipynb"
    changed = json.loads(copy.read_text(encoding="utf-8"))
    changed["cells"].pop()
    copy.write_text(json.dumps(changed), encoding="utf-8")
    answer = run("--fresh", "04-live", "--folder", str(tmp_path))
    assert f"your copy is now {tmp_path / '04-live-own1.ipynb'}" in answer.stderr
    assert json.loads((tmp_path / "04-live-own1.ipynb").read_text(encoding="utf-8")) == changed
    assert started[-1][-1] == str(copy)
    assert len(json.loads(copy.read_text(encoding="utf-8"))["cells"]) == len(changed["cells"]) + 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nope"], "notebook 'nope': there are 00-code-path"),
        (["05-foo"], "notebook '05-foo': there are 00-code-path, 01-sweep, "),
        (["--fresh"], "--fresh: say which notebook"),
        (["--fresh", "nope"], "notebook 'nope': there are"),
        (["--no-browser"], "--no-browser"),
    ],
)
def test_bad_input_opens_nothing(
    started: list[list[str]], tmp_path: Path, words: list[str], named: str
) -> None:
    answer = run("--folder", str(tmp_path / "mine"), *words)
    assert (answer.exit_code, started) == (2, [])
    assert named in answer.stderr
    assert not (tmp_path / "mine").exists()


def test_a_notebook_of_ones_own_among_the_copies_is_opened(started: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "own.ipynb").write_text("{}", encoding="utf-8")
    run("own", "--folder", str(tmp_path))
    assert started[0][-1] == str(tmp_path / "own.ipynb")


def test_fresh_opens_the_fresh_copy_by_a_part_of_its_name_too(
    started: list[list[str]], tmp_path: Path
) -> None:
    run("live", "--folder", str(tmp_path))
    run("--fresh", "live", "--folder", str(tmp_path))
    assert [command[-1] for command in started] == [str(tmp_path / "04-live.ipynb")] * 2


def test_a_folder_that_cannot_be_made_is_named_with_the_cure(
    started: list[list[str]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    answer = run("--folder", str(tmp_path / "file" / "mine"))
    assert (answer.exit_code, started) == (2, [])
    assert f"{tmp_path / 'file' / 'mine'}" in answer.stderr
    assert "--folder DIR" in answer.stderr


def test_without_jupyterlab_it_says_so(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda _: None)
    answer = run("--folder", str(tmp_path))
    assert (answer.exit_code, started) == (1, [])
    assert "jupyterlab is not installed here" in answer.stderr


def test_outside_of_a_checkout_it_says_where_the_notebooks_are(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise FileNotFoundError("no specswitch checkout above here")

    monkeypatch.setattr(lab, "project_root", nowhere)
    answer = run("04-live")
    assert (answer.exit_code, started) == (2, [])
    assert "the notebooks lie in the checkout, or in an unpacked bundle: no specswitch" in answer.stderr


def test_root_is_told_how_to_go_on(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    told = run("04-live", "--folder", str(tmp_path), "--", "--no-browser").stderr
    assert told.endswith(
        f"told to: specswitch lab 04-live --folder {tmp_path} -- --allow-root --no-browser\n"
    )
    for option in ("--allow-root", "--ServerApp.allow_root=True"):
        assert "you are root" not in run("04-live", "--folder", str(tmp_path), "--", option).stderr
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "you are root" not in run("04-live", "--folder", str(tmp_path)).stderr
    assert len(started) == 4
