"""Shapes over time: what they want when."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specswitch.load.shapes import Burst, Constant, Poisson, Ramp, Sawtooth, Square, Step


def test_a_step_changes_once_at_its_time():
    step = Step(before=2, after=12, at_s=3.0, duration_s=8.0)
    assert [step.target(t) for t in (0.0, 2.999, 3.0, 7.9)] == [2, 2, 12, 12]
    assert step.peak == 12


def test_a_step_may_go_down():
    step = Step(before=12, after=2, at_s=3.0, duration_s=8.0)
    assert [step.target(t) for t in (0.0, 3.0)] == [12, 2]
    assert step.peak == 12


def test_a_square_wave_is_low_then_high_in_every_period():
    square = Square(low=2, high=12, period_s=4.0, duration_s=12.0)
    assert [square.target(t) for t in (0.0, 1.99, 2.0, 3.99, 4.0, 6.0, 10.5)] == [2, 2, 12, 12, 2, 12, 12]


def test_a_ramp_stays_equally_long_on_every_stair():
    ramp = Ramp(low=1, high=4, duration_s=8.0)
    assert [ramp.target(t) for t in (0.0, 1.9, 2.0, 4.0, 6.0, 7.99)] == [1, 1, 2, 3, 4, 4]


def test_a_sawtooth_climbs_in_every_period_and_falls_at_once():
    saw = Sawtooth(low=0, high=3, period_s=4.0, duration_s=8.0)
    assert [saw.target(t) for t in (0.0, 1.0, 2.0, 3.0, 3.99, 4.0, 7.5)] == [0, 1, 2, 3, 3, 0, 3]


@given(low=st.integers(0, 20), rise=st.integers(1, 40), share=st.floats(0, 0.999_999))
def test_slots_never_leave_low_to_high(low, rise, share):
    high = low + rise
    for shape in (
        Ramp(low=low, high=high, duration_s=7.0),
        Sawtooth(low=low, high=high, period_s=3.0, duration_s=7.0),
        Square(low=low, high=high, period_s=3.0, duration_s=7.0),
    ):
        assert low <= shape.target(share * shape.duration_s) <= shape.peak == high


def test_constant_arrivals_are_equally_spaced_and_end_before_the_end():
    arrivals = Constant(rate=4.0, duration_s=1.0).arrivals()
    assert arrivals == (0.0, 0.25, 0.5, 0.75)


def test_poisson_arrivals_have_their_rate_and_repeat_by_seed():
    shape = Poisson(rate=50.0, duration_s=200.0, seed=7)
    arrivals = shape.arrivals()
    assert len(arrivals) == pytest.approx(10_000, abs=4 * 100)
    gaps = [b - a for a, b in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert spread == pytest.approx(mean, rel=0.1)  # exponential gaps
    assert shape.arrivals() == arrivals
    assert shape.arrivals(repeat=1) != arrivals
    assert shape.arrivals(repeat=1) == shape.model_copy(update={"seed": 8}).arrivals()
    assert arrivals[0] >= 0
    assert arrivals[-1] < 200.0


def test_a_burst_keeps_both_rates():
    burst = Burst(low=5.0, high=40.0, period_s=4.0, duration_s=400.0)
    in_low = [t for t in burst.arrivals() if t % 4.0 < 2.0]
    in_high = [t for t in burst.arrivals() if t % 4.0 >= 2.0]
    assert len(in_low) / 200 == pytest.approx(5.0, rel=0.15)
    assert len(in_high) / 200 == pytest.approx(40.0, rel=0.1)


def test_a_burst_without_a_base_rate_is_silent_in_between():
    burst = Burst(low=0.0, high=40.0, period_s=4.0, duration_s=40.0)
    assert all(t % 4.0 >= 2.0 for t in burst.arrivals())
