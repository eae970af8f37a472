"""Fake engines for tests of the sweep, in this process and in notebook kernels."""

from __future__ import annotations

import pytest

from sweep.support import use_fake_engines


@pytest.fixture
def fake_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers started in this test, or by its children, are fake engines."""
    use_fake_engines(monkeypatch)
