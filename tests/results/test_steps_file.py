"""The binary step log: exactly what the engine wrote, whatever state its tail is in."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from specswitch.results.layout import DamagedError
from specswitch.results.steps_file import MAGIC, STEP_DTYPE, count_steps, read_steps, step_log

ROWS = [
    (10.0, 4, 0, 0, 0, 4, 0, 0, 0, math.nan),
    (10.5, 4, 1, 12, 7, 11, 9, 1, 0, 3.25),
    (11.0, 3, 1, 9, 0, 3, 0, 0, 0, 2.5),
]


def write(path: Path, tail: bytes = b"") -> Path:
    path.write_bytes(MAGIC + b"".join(struct.pack("<d8id", *row) for row in ROWS) + tail)
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    first, second, third = read_steps(write(tmp_path / "s.bin"))
    assert (first.mode, first.step_ms, first.switched) == ("plain", None, False)
    assert (second.t_s, second.batch, second.mode, second.step_ms) == (10.5, 4, "speculative", 3.25)
    assert (second.proposed, second.accepted, second.emitted, second.synced) == (12, 7, 11, 9)
    assert second.switched is True
    assert (third.batch, third.accepted) == (3, 0)


def test_the_window_is_half_open(tmp_path: Path) -> None:
    path = write(tmp_path / "s.bin")
    assert [s.t_s for s in read_steps(path, 10.5, 11.0)] == [10.5]
    assert [s.t_s for s in read_steps(path, 10.6)] == [11.0]


@pytest.mark.parametrize("cut", [1, 8, 47])
def test_a_cut_tail_costs_that_record_only(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "s.bin", tail=b"\x01" * cut)
    assert count_steps(path) == len(read_steps(path)) == 3


def test_nothing_written_yet_is_no_step(tmp_path: Path) -> None:
    assert count_steps(tmp_path / "absent.bin") == 0
    for begun in (b"", MAGIC[:3], MAGIC):
        (tmp_path / "s.bin").write_bytes(begun)
        assert count_steps(tmp_path / "s.bin") == 0
        assert read_steps(tmp_path / "s.bin") == []


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.bin"
    path.write_bytes(b"PAR1" + bytes(200))
    with pytest.raises(DamagedError, match="SPSWST01"):
        read_steps(path)


def test_the_engine_and_the_reader_agree_on_the_layout(tmp_path: Path) -> None:
    """Written by the engine's own counters, which this package may not import outside a test."""
    counters = pytest.importorskip("specswitch.engine.counters")
    policy = pytest.importorskip("specswitch.engine.policy")
    writer = counters.Counters(rank=2, steps_dir=str(tmp_path))
    info = counters.StepInfo(policy.Mode.SPECULATIVE, switched=True, synced=5)
    writer.record(info, batch=3, proposed=9, accepted=4)
    writer.record(counters.StepInfo(policy.Mode.PLAIN), batch=2, proposed=0, accepted=0)
    writer.idle()
    first, second = read_steps(step_log(tmp_path, rank=2))
    assert (first.mode, first.batch, first.proposed, first.accepted) == ("speculative", 3, 9, 4)
    assert (first.emitted, first.synced, first.switched, first.step_ms) == (7, 5, True, None)
    assert (second.mode, second.batch, second.emitted) == ("plain", 2, 2)
    assert second.step_ms is not None
    assert pytest.importorskip("specswitch.engine.step_file").RECORD.size == STEP_DTYPE.itemsize
