"""Intervals against the tables of Student's t, and by simulation."""

from __future__ import annotations

import random

import pytest

from specswitch.metrics.intervals import mean_interval, paired_ratio


def test_three_repeats_use_the_t_table():
    interval = mean_interval([9.0, 10.0, 11.0])
    assert interval.mean == 10.0
    assert interval.high - interval.mean == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert interval.mean - interval.low == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_a_single_run_has_no_interval():
    interval = mean_interval([10.0])
    assert (interval.mean, interval.low, interval.high, interval.n) == (10.0, None, None, 1)
    assert mean_interval([]) is None


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = random.Random(1)
    runs = [mean_interval([rng.gauss(5, 2) for _ in range(4)]) for _ in range(2000)]
    covered = sum(run.low <= 5 <= run.high for run in runs) / len(runs)
    assert 0.93 <= covered <= 0.97


def test_pairing_removes_what_both_arms_share():
    base = [100.0, 150.0, 90.0, 130.0]
    better = [v * 1.1 for v in base]
    ratio = paired_ratio(better, base)
    assert ratio.low == pytest.approx(1.1)
    assert ratio.high == pytest.approx(1.1)


def test_a_ratio_is_the_inverse_of_its_inverse():
    a, b = [3.0, 4.0, 5.0], [2.0, 4.5, 4.0]
    there, back = paired_ratio(a, b), paired_ratio(b, a)
    assert there.mean == pytest.approx(1 / back.mean)
    assert there.low == pytest.approx(1 / back.high)


def test_unpaired_or_impossible_values_are_refused():
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="positive"):
        paired_ratio([1.0], [0.0])
    assert paired_ratio([], []) is None
    assert paired_ratio([2.0], [1.0]).low is None
