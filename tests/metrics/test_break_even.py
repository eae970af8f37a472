"""From step times to batch ranges."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specswitch.metrics.break_even import (
    Wave,
    break_even_at,
    break_even_batch,
    break_even_lengths,
    doubts,
    mean_step_ms,
    paying_ranges,
    pooled_accept_length,
    wave,
)
from specswitch.metrics.ratio import Ratio
from specswitch.metrics.records import StepRecord

LENGTHS = st.dictionaries(st.integers(1, 64), st.floats(1.0, 4.0), min_size=1, max_size=8)


def step(batch: int, mode: str, ms: float | None, emitted: int = 0) -> StepRecord:
    return StepRecord(0.0, batch, mode, 0, max(emitted - batch, 0), emitted, 0, False, ms)  # type: ignore[arg-type]


def waves(ratios: dict[int, list[float]]) -> list[Wave]:
    """Plain steps of 10 ms; speculative ones `ratios[batch][repeat]` times as long, accept length 2."""
    return [
        Wave(batch, repeat, mode, 10.0 * (ratio if mode == "speculative" else 1), 20, length)
        for batch, by_repeat in ratios.items()
        for repeat, ratio in enumerate(by_repeat)
        for mode, length in (("plain", Ratio(0, 0)), ("speculative", Ratio(2 * batch, batch)))
    ]


def test_a_wave_is_judged_by_its_full_batch_in_its_mode_after_settling():
    filling = [step(1, "plain", 99.0), step(4, "speculative", 88.0)]
    settling = [step(4, "plain", 77.0)] * 3
    full = [step(4, "plain", ms) for ms in (5.0, 7.0, 6.0, 100.0, 6.0)]
    first_after_idle = [step(4, "plain", None)]
    drained = [step(3, "plain", 1.0)] * 9
    found = wave(4, 0, "plain", [*filling, *settling, *full, *first_after_idle, *drained])
    assert found == Wave(4, 0, "plain", 6.0, 5, Ratio(0, 0))


def test_the_accept_length_of_a_wave_counts_its_full_verify_steps_only():
    steps = [step(2, "speculative", 9.0, emitted=5)] * 8 + [step(1, "speculative", 9.0, emitted=4)]
    found = wave(2, 1, "speculative", steps)
    assert found is not None
    assert found.accepted == Ratio(25, 10)


def test_a_wave_that_never_ran_whole_is_none():
    assert wave(4, 0, "plain", [step(3, "plain", 5.0)] * 50) is None
    assert wave(4, 0, "plain", [step(4, "plain", 5.0)] * 5) is None


def test_lengths_are_paired_by_repeat_and_a_lone_mode_counts_for_nothing():
    measured = [*waves({1: [1.5, 1.5], 8: [2.0, 4.5]}), Wave(64, 0, "plain", 3.0, 9, Ratio(0, 0))]
    lengths = break_even_lengths(measured)
    assert list(lengths) == [1, 8]
    assert lengths[1].mean == pytest.approx(1.5)
    assert lengths[8].mean == pytest.approx(3.0)  # geometric
    assert lengths[8].low is not None
    assert lengths[8].low < 3.0


def test_the_ranges_of_a_line_that_crosses_twice_are_two():
    lengths = {1: 1.5, 4: 2.5, 16: 1.5, 32: 3.0}
    first, second = paying_ranges(lengths, 2.0)
    assert first == (1, 1)  # log2(2) is the middle between 1 and 4: exactly 2.0, which does not pay
    assert second[0] == 9
    assert 16 < second[1] < 32
    assert paying_ranges(lengths, 1.2) == []
    assert paying_ranges(lengths, 9.0) == [(1, 32)]
    assert paying_ranges({}, 2.0) == []


@given(LENGTHS, st.floats(1.0, 4.0))
def test_ranges_are_what_a_server_takes_and_hold_exactly_the_paying_batches(lengths, accept_length):
    ranges = paying_ranges(lengths, accept_length)
    for (_, last), (first, _) in itertools.pairwise(ranges):
        assert first > last + 1
    for batch in range(1, max(lengths) + 1):
        inside = any(first <= batch <= last for first, last in ranges)
        assert inside == (break_even_at(lengths, batch) < accept_length)


@given(LENGTHS, st.integers(1, 80))
def test_between_measured_sizes_lies_between_their_lengths(lengths, batch):
    value = break_even_at(lengths, batch)
    assert min(lengths.values()) - 1e-9 <= value <= max(lengths.values()) + 1e-9
    if batch in lengths:
        assert value == lengths[batch]


def test_the_threshold_has_an_interval_over_repeats():
    found = break_even_batch(waves({1: [1.5, 1.5], 2: [1.9, 1.9], 4: [2.5, 1.95], 8: [3.0, 3.0]}), 2.0)
    assert found is not None
    assert (found.mean, found.n) == (3.0, 2)  # batches 2 and 4
    assert break_even_batch(waves({1: [1.5], 8: [1.9]}), 2.0) is None  # still pays at the largest
    assert break_even_batch(waves({1: [2.5], 8: [3.0]}), 2.0) is None  # never pays


def test_pooled_length_and_means():
    measured = waves({1: [1.5, 1.7], 8: [2.0, 2.0]})
    assert pooled_accept_length(measured).value == 2.0
    assert mean_step_ms(measured, 1, "speculative") == pytest.approx(16.0)
    assert mean_step_ms(measured, 3, "plain") is None


def test_step_times_that_cannot_be_are_in_doubt():
    assert doubts(waves({1: [1.5, 1.6], 8: [2.5, 2.6]})) == []
    (impossible,) = doubts(waves({1: [0.8, 0.9], 8: [2.5, 2.6]}))
    assert impossible.startswith("batch 1: a speculative step took less time")
    (unequal,) = doubts(waves({1: [1.5, 1.6], 8: [2.0, 3.2]}))
    assert unequal == "batch 8, speculative: repeats took 20.0 to 32.0 ms a step"
