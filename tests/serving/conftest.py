"""Fixtures: a pair of model directories, a private place for server records, the engine replaced by a fake."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from serving.support import FAKE_CHILD, write_draft, write_target
from specswitch.config import ServerConfig


@pytest.fixture(autouse=True)
def _private_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of the tests' servers lie apart, and the test's own variables are not the user's."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    for name in list(os.environ):
        if name.startswith(("SGLANG_", "SPECSWITCH_")):
            monkeypatch.delenv(name)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_target(tmp_path / "target")


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    return write_draft(tmp_path / "draft")


@pytest.fixture
def config(target: Path, draft: Path) -> ServerConfig:
    """A server on v2 with the made-up pair."""
    return ServerConfig(model=str(target), draft=str(draft), path="v2", ready_timeout_s=60.0)


@pytest.fixture
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches start the fake child instead of the engine."""
    program = [sys.executable, str(FAKE_CHILD)]
    monkeypatch.setattr("specswitch.serving.argv.server_program", lambda: program)
    monkeypatch.setattr("specswitch.serving.spec.server_program", lambda: program)
