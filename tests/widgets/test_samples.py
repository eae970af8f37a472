"""Differences of counters: what exists is exact, what does not exist is None, never 0."""

from __future__ import annotations

from typing import Any

import pytest

from specswitch.widgets.samples import History, Reading, Sample, between, gap


def reading(t_s: float, **state: Any) -> Reading:
    zero = dict.fromkeys(
        ("plain_steps", "speculative_steps", "plain_tokens", "speculative_tokens", "accepted"), 0
    )
    return Reading(t_s, {"pid": 7, "running_batch": 3, "threshold": 4, **zero, **state})


def test_a_sample_is_what_the_counters_rose_by_per_second() -> None:
    before = reading(
        10.0, plain_steps=5, plain_tokens=50, speculative_steps=100, speculative_tokens=999, accepted=500
    )
    after = reading(
        12.0,
        plain_steps=6,
        plain_tokens=60,
        speculative_steps=103,
        speculative_tokens=999 + 25,
        accepted=500 + 15,
    )
    sample = between(before, after)
    assert sample.tok_s == pytest.approx((10 + 25) / 2)
    assert sample.accept_length == pytest.approx(25 / 10)  # 10 verified requests, 15 drafts right
    assert sample.speculative_share == pytest.approx(3 / 4)
    assert sample.mode == "both"
    assert (sample.running_batch, sample.threshold, sample.t_s) == (3, 4, 12.0)


def test_where_nothing_was_verified_there_is_no_accept_length() -> None:
    sample = between(reading(0.0), reading(1.0, plain_steps=4, plain_tokens=12))
    assert sample.accept_length is None
    assert (sample.mode, sample.tok_s) == ("plain", 12.0)


def test_verification_that_accepts_nothing_is_one_not_none() -> None:
    sample = between(reading(0.0), reading(1.0, speculative_steps=4, speculative_tokens=12))
    assert (sample.accept_length, sample.mode) == (1.0, "speculative")


def test_an_idle_server_makes_no_tokens_and_has_no_mode() -> None:
    sample = between(reading(0.0), reading(0.5))
    assert (sample.tok_s, sample.mode, sample.accept_length) == (0.0, None, None)


@pytest.mark.parametrize(
    "before",
    [None, reading(0.0, pid=6), reading(0.0, plain_tokens=99), reading(0.0, accepted=None)],
    ids=["first look", "another process", "counters fell", "a counter is missing"],
)
def test_rates_across_a_restart_do_not_exist(before: Reading | None) -> None:
    sample = between(before, reading(1.0, plain_steps=4, plain_tokens=12))
    assert (sample.tok_s, sample.mode, sample.accept_length) == (None, None, None)
    assert sample.running_batch == 3


def test_the_history_is_bounded_and_keeps_the_newest() -> None:
    history = History(kept=3)
    for t_s in range(5):
        history.add(gap(float(t_s)))
    assert [sample.t_s for sample in history] == [2.0, 3.0, 4.0]
    assert next(iter(history)) == Sample(2.0, None, None, None, None, None)
    history.clear()
    assert len(history) == 0
