"""A bundle of tests does not build the project's wheel each time: it is 17 MB that hardly shrink."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from specswitch import __version__
from specswitch.bundle import build, project

from .made_up import make_wheel


@pytest.fixture(scope="session")
def project_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real wheel of this checkout."""
    return project.build_wheel(project.checkout(), tmp_path_factory.mktemp("project"))


@pytest.fixture
def small_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In place of the project's wheel a bundle takes a small made-up one."""
    _instead(monkeypatch, make_wheel(tmp_path / "project", "specswitch", __version__))


@pytest.fixture
def real_project(small_project: None, monkeypatch: pytest.MonkeyPatch, project_wheel: Path) -> None:
    """A bundle takes the project's real wheel, built once for all tests; goes before `small_project`."""
    _instead(monkeypatch, project_wheel)


def _instead(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> None:
    class Built:
        loose_files = staticmethod(project.loose_files)

        @staticmethod
        def build_wheel(root: Path, folder: Path) -> Path:
            return Path(shutil.copy(wheel, folder))

    monkeypatch.setattr(build, "project", Built)
