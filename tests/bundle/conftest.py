"""The project's wheel is built once for all tests of a bundle."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from specswitch.bundle import build, project


@pytest.fixture(scope="session")
def project_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real wheel of this checkout."""
    return project.build_wheel(project.checkout(), tmp_path_factory.mktemp("project"))


@pytest.fixture
def built_once(project_wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle takes the wheel that was built before."""

    class Built:
        loose_files = staticmethod(project.loose_files)

        @staticmethod
        def build_wheel(root: Path, folder: Path) -> Path:
            return Path(shutil.copy(project_wheel, folder))

    monkeypatch.setattr(build, "project", Built)
