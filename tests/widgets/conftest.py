"""The engine replaced by the fake one; logs and server records of the tests apart."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from widgets.support import FAKE_LIVE


@pytest.fixture
def fake_engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Servers started in this test are fake ones; returns the folder in which their logs lie."""
    program = [sys.executable, str(FAKE_LIVE)]
    monkeypatch.setattr("specswitch.serving.argv.server_program", lambda: program)
    monkeypatch.setattr("specswitch.widgets.sources.project_root", lambda: tmp_path)
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return tmp_path / "reports"
