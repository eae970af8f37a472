"""The file of steps that a reader must be able to trust, and that a server must be able to lose."""

from __future__ import annotations

import contextlib
import logging
import resource
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from specswitch.engine.step_file import MAGIC, RECORD, StepFile

STEP = (4, 1, 12, 5, 9, 0, 0, 0, 1.5)


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write beyond so many bytes fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_record_layout_is_what_readers_expect() -> None:
    assert RECORD.size == struct.calcsize("<d8id") == 48


def test_records_go_behind_those_of_an_earlier_server(tmp_path: Path) -> None:
    path = tmp_path / "steps-rank0.bin"
    for now in (1.0, 2.0):
        file = StepFile(str(path))
        file.write(now, *STEP)
        file.flush()
    data = path.read_bytes()
    assert data[:8] == MAGIC
    assert list(RECORD.iter_unpack(data[8:])) == [(1.0, *STEP), (2.0, *STEP)]


def test_a_full_disk_costs_the_file_and_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "steps-rank0.bin"
    file = StepFile(str(path))
    room = len(MAGIC) + 3 * RECORD.size
    with files_of_at_most(room), caplog.at_level(logging.WARNING):
        for i in range(2000):  # more than the buffer takes: both writing and flushing meet the end
            file.write(i * 0.01, *STEP)
        file.flush()
    [warning] = caplog.messages
    assert str(path) in warning
    assert "File too large" in warning
    whole, cut = divmod(path.stat().st_size - len(MAGIC), RECORD.size)
    assert (whole, cut) == (3, 0)


def test_a_buffer_that_overflows_on_a_full_disk_does_not_end_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = StepFile(str(tmp_path / "steps-rank0.bin"))
    with files_of_at_most(len(MAGIC)), caplog.at_level(logging.WARNING):
        for _ in range(2000):  # at one time: nothing is flushed before the buffer is full
            file.write(0.0, *STEP)
    assert len(caplog.messages) == 1


def test_a_folder_that_is_not_there_is_named_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = StepFile(str(tmp_path / "none" / "steps-rank0.bin"))
    file.write(0.0, *STEP)
    file.flush()
    [warning] = caplog.messages
    assert "none/steps-rank0.bin" in warning
    assert "No such file or directory" in warning
