"""Repeats needed: against textbook values, against a simulation, and at its edges."""

from __future__ import annotations

import math
import random
from statistics import stdev

import pytest

from specswitch.metrics.intervals import paired_ratio
from specswitch.metrics.repeats import MOST, log_spread, power, repeats_needed


@pytest.mark.parametrize(("effect_size", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_small_medium_and_large_effects_need_the_textbook_number_of_pairs(
    effect_size: float, pairs: int
) -> None:
    """Cohen's effect sizes, two-sided 5 %, power 0.8: the sample sizes of a paired t test in G*Power."""
    assert repeats_needed(math.log1p(0.03) / effect_size) == pairs


def test_the_power_is_how_often_a_simulated_interval_leaves_out_one() -> None:
    rng, spread, repeats, runs = random.Random(5), 0.03, 8, 4000
    seen = 0
    for _ in range(runs):
        values = [1.03 * math.exp(rng.gauss(0, spread)) for _ in range(repeats)]
        interval = paired_ratio(values, [1.0] * repeats)
        assert interval is not None
        seen += interval.low > 1 or interval.high < 1
    assert seen / runs == pytest.approx(power(repeats, spread), abs=0.03)


def test_one_repeat_fewer_would_not_do() -> None:
    for spread in (0.005, 0.02, 0.07):
        n = repeats_needed(spread)
        assert n is not None
        assert power(n, spread) >= 0.8
        assert n == 2 or power(n - 1, spread) < 0.8


def test_more_spread_or_a_smaller_effect_needs_more_repeats() -> None:
    assert repeats_needed(0.01) < repeats_needed(0.03) < repeats_needed(0.1)
    assert repeats_needed(0.03, effect=0.1) < repeats_needed(0.03, effect=0.03)


def test_equal_repeats_need_two_and_hopeless_spread_needs_more_than_anybody_makes() -> None:
    assert repeats_needed(0.0) == 2
    assert repeats_needed(3.0) is None
    assert power(MOST, 3.0) < 0.8


def test_the_spread_is_that_of_the_paired_logarithms() -> None:
    a, b = [1.1, 2.4, 4.0], [1.0, 2.0, 4.0]
    interval = paired_ratio(a, b)
    assert interval is not None
    assert log_spread(interval) == pytest.approx(stdev(math.log(x / y) for x, y in zip(a, b, strict=True)))


def test_common_drift_is_no_spread_and_a_single_pair_has_none() -> None:
    together, single = paired_ratio([1.1, 2.2, 4.4], [1.0, 2.0, 4.0]), paired_ratio([1.0], [2.0])
    assert together is not None
    assert single is not None
    assert log_spread(together) == pytest.approx(0.0, abs=1e-12)
    assert log_spread(single) is None
