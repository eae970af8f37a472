"""`specswitch bundle` on the command line: what it prints, and exit code 2 before anything slow starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specswitch.bundle import build
from specswitch.cli import main

from .made_up import PLATFORM, PYTHON, make_folder


def run(tmp_path: Path, *more: str) -> Result:
    wheels, lock = make_folder(tmp_path)
    given = ["--lock", str(lock), "--wheels", str(wheels), "--python", PYTHON, "--platform", PLATFORM]
    return CliRunner().invoke(main, ["bundle", "--out", str(tmp_path / "out"), *given, *more])


@pytest.mark.usefixtures("small_project")
def test_the_last_line_is_the_path_of_the_bundle(tmp_path: Path) -> None:
    done = run(tmp_path, "--without", "torch", "--level", "0")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(tmp_path / "out")
    assert "4 wheels (1 left out)" in done.stderr
    assert "sh install.sh TARGET" in done.stderr
    assert (tmp_path / "out" / "SHA256SUMS").is_file()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--kernels", "sm80"], ["kernels='sm80'", "sm90", "sm100"]),
        (["--chunk-mb", "0"], ["--chunk-mb", "'0': give a whole number of 1 or more"]),
        (["--python", "3.10"], ["'3.10'", "'3.11', '3.12'"]),
        (["--platform", "win_amd64"], ["platform='win_amd64'", "ldd --version"]),
        (["--lock", "fulll"], ["lock='fulll'", "full, lean, or the path"]),
        (["--without", "torhc"], ["without='torhc'", "did you mean torch?"]),
        (["--present", "/nowhere/list.txt"], ["/nowhere/list.txt", "pip list --format=freeze"]),
        (["--wheels", "/nowhere"], ["wheels='/nowhere' is no folder"]),
        (["--model", "/nowhere/model"], ["/nowhere/model", "config.json"]),
        (["--level", "10"], ["--level", "10"]),
    ],
)
def test_bad_input_is_refused_with_the_value_and_the_cure(
    more: list[str], named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "make", lambda *_: pytest.fail("something slow was started"))
    done = run(tmp_path, *more)
    assert done.exit_code == 2, done.output
    for part in named:
        assert part in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious", encoding="utf-8")
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "is not an empty folder: give a new one" in done.stderr
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_wheel_that_is_not_in_the_folder_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "make", lambda *_: pytest.fail("something slow was started"))
    (tmp_path / "more.lock").write_text("first==1.0\nthird==3.0\n", encoding="utf-8")
    done = run(tmp_path, "--lock", str(tmp_path / "more.lock"))
    assert done.exit_code == 2
    assert "third==3.0" in done.stderr


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "m").mkdir(parents=True)
        (tmp_path / parent / "m" / "config.json").write_text("{}", encoding="utf-8")
    done = run(tmp_path, "--model", str(tmp_path / "a/m"), "--model", str(tmp_path / "b/m"))
    assert done.exit_code == 2
    assert "has the same name" in done.stderr
