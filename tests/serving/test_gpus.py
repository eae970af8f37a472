"""GPUs as a scripted `nvidia-smi` reports them, and the wait for a dead server's memory."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from specswitch.serving import gpus

SMI = """#!/bin/sh
free=$(cat {state} 2>/dev/null || echo 90000)
echo "0, GPU-a, Big One, 141000, $free"
echo "1, GPU-b, Big One, 141000, 140000"
"""


@pytest.fixture
def free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that says how much GPU 0 has free."""
    state = tmp_path / "free"
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(SMI.format(state=state), encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return state


@pytest.mark.usefixtures("free_memory")
@pytest.mark.parametrize(("visible", "count"), [(None, 2), ("1", 1), ("GPU-a", 1), ("", 0), ("-1", 0)])
def test_only_visible_gpus_count(monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.count_gpus() == count


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.list_gpus() == []


def test_the_wait_ends_when_the_memory_is_back(free_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case C8: the driver frees the memory of a dead server late."""
    free_memory.write_text("130000", encoding="utf-8")
    before = gpus.list_gpus()
    free_memory.write_text("20000", encoding="utf-8")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            free_memory.write_text("129900", encoding="utf-8")

    monkeypatch.setattr(gpus, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert gpus.wait_until_released(before)
    assert len(slept) == 2


def test_memory_that_does_not_come_back_is_told(free_memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    free_memory.write_text("130000", encoding="utf-8")
    before = gpus.list_gpus()
    free_memory.write_text("20000", encoding="utf-8")
    assert not gpus.wait_until_released(before, timeout_s=0)
    assert "GPU [0]" in caplog.text
