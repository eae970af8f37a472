"""Step records and totals, and the file that a reader must be able to trust."""

from __future__ import annotations

import math
import struct

import pytest

from specswitch.engine.counters import MAGIC, RECORD, Counters, StepInfo
from specswitch.engine.policy import Mode


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


def test_the_file_holds_every_record_after_idle(tmp_path) -> None:
    counters = Counters(rank=3, steps_dir=str(tmp_path))
    counters.record(StepInfo(Mode.PLAIN, switched=True, synced=7), batch=5, proposed=0, accepted=0)
    counters.record(StepInfo(Mode.SPECULATIVE), batch=2, proposed=6, accepted=4)
    counters.idle()
    data = (tmp_path / "steps-rank3.bin").read_bytes()
    assert data[:8] == MAGIC
    assert (len(data) - 8) % RECORD.size == 0
    first, second = RECORD.iter_unpack(data[8:])
    assert first[1:9] == (5, 0, 0, 0, 5, 7, 1, 0)
    assert math.isnan(first[9]), "the first step has no predecessor"
    assert second[1:9] == (2, 1, 6, 4, 6, 0, 0, 0)
    assert second[9] == pytest.approx((second[0] - first[0]) * 1e3)


def test_a_step_after_idle_has_no_duration() -> None:
    counters = Counters(rank=0)
    counters.record(StepInfo(Mode.PLAIN), batch=1, proposed=0, accepted=0)
    counters.idle()
    counters.record(StepInfo(Mode.PLAIN), batch=1, proposed=0, accepted=0)
    assert all(math.isnan(row[9]) for row in counters.ring)


def test_record_layout_is_what_readers_expect() -> None:
    assert RECORD.size == struct.calcsize("<d8id") == 48


def test_tokens_of_requests_that_had_ended_do_not_count() -> None:
    counters = Counters(rank=0)
    counters.record(StepInfo(Mode.SPECULATIVE), batch=3, proposed=6, accepted=4, dead=1)
    counters.record(StepInfo(Mode.PLAIN), batch=3, proposed=0, accepted=0, dead=2)
    t = counters.totals
    assert (t.speculative_tokens, t.plain_tokens) == (2 + 4, 1)
    assert (counters.accept_length(), [row[1] for row in counters.ring]) == (3.0, [3, 3])
