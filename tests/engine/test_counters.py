"""Totals of the decode steps, and the record that each leaves in the file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from specswitch.engine.counters import Counters, StepInfo
from specswitch.engine.policy import Mode
from specswitch.engine.step_file import MAGIC, RECORD


def records(steps_dir: Path) -> list[tuple]:
    """What an idle server's rank 0 has written."""
    data = (steps_dir / "steps-rank0.bin").read_bytes()
    assert data[:8] == MAGIC
    return list(RECORD.iter_unpack(data[8:]))


def test_accept_length_counts_verify_steps_only() -> None:
    """Field case A3: 10 verifies with these accepts, then 30 plain tokens."""
    counters = Counters(rank=0)
    for accepted in [3, 0, 2, 1, 3, 0, 0, 1, 2, 3]:
        counters.record(StepInfo(Mode.SPECULATIVE), batch=1, proposed=3, accepted=accepted)
    for _ in range(30):
        counters.record(StepInfo(Mode.PLAIN), batch=1, proposed=0, accepted=0)
    t = counters.totals
    assert (t.accepted, t.proposed) == (15, 30)
    assert counters.accept_length() == 2.5
    assert t.speculative_tokens / (t.speculative_tokens + t.plain_tokens) == 25 / 55


def test_without_a_verify_there_is_no_accept_length() -> None:
    counters = Counters(rank=0)
    assert counters.accept_length() is None
    counters.record(StepInfo(Mode.PLAIN), batch=4, proposed=0, accepted=0)
    assert counters.accept_length() is None


def test_the_file_holds_every_record_after_idle(tmp_path: Path) -> None:
    counters = Counters(rank=0, steps_dir=str(tmp_path))
    counters.record(StepInfo(Mode.PLAIN, switched=True, synced=7), batch=5, proposed=0, accepted=0)
    counters.record(StepInfo(Mode.SPECULATIVE), batch=2, proposed=6, accepted=4)
    counters.idle()
    first, second = records(tmp_path)
    assert first[1:9] == (5, 0, 0, 0, 5, 7, 1, 0)
    assert math.isnan(first[9]), "the first step has no predecessor"
    assert second[1:9] == (2, 1, 6, 4, 6, 0, 0, 0)
    assert second[9] == pytest.approx((second[0] - first[0]) * 1e3)


def test_each_rank_has_a_file_of_its_own(tmp_path: Path) -> None:
    Counters(rank=3, steps_dir=str(tmp_path))
    assert [file.name for file in tmp_path.iterdir()] == ["steps-rank3.bin"]


def test_a_step_after_idle_has_no_duration(tmp_path: Path) -> None:
    counters = Counters(rank=0, steps_dir=str(tmp_path))
    for _ in range(2):
        counters.record(StepInfo(Mode.PLAIN), batch=1, proposed=0, accepted=0)
        counters.idle()
    assert [math.isnan(record[9]) for record in records(tmp_path)] == [True, True]


def test_tokens_of_requests_that_had_ended_do_not_count(tmp_path: Path) -> None:
    counters = Counters(rank=0, steps_dir=str(tmp_path))
    counters.record(StepInfo(Mode.SPECULATIVE), batch=3, proposed=6, accepted=4, dead=1)
    counters.record(StepInfo(Mode.PLAIN), batch=3, proposed=0, accepted=0, dead=2)
    counters.idle()
    t = counters.totals
    assert (t.speculative_tokens, t.plain_tokens) == (2 + 4, 1)
    assert counters.accept_length() == 3.0
    assert [record[1] for record in records(tmp_path)] == [3, 3]
