"""The envelope needs both static arms and is not lifted by noise."""

from __future__ import annotations

import random

import pytest

from specswitch.metrics.envelope import envelope, envelope_ratio, envelope_ratio_interval


def test_the_envelope_is_the_better_static_arm():
    assert envelope(2484.0, 2219.0) == 2484.0
    assert envelope(206.0, 308.0) == 308.0
    assert envelope_ratio(300.0, 206.0, 308.0) == pytest.approx(300 / 308)


def test_half_an_envelope_is_none():
    assert envelope(100.0, None) is None
    assert envelope_ratio(100.0, None, 50.0) is None
    assert envelope_ratio(None, 100.0, 50.0) is None
    assert envelope_ratio(100.0, 0.0, 0.0) is None
    assert envelope_ratio_interval([1.0], [], [1.0]) is None


def test_equal_arms_have_ratio_one_on_average_in_spite_of_noise():
    rng = random.Random(3)

    def arm() -> list[float]:
        return [rng.gauss(100, 5) for _ in range(400)]

    ratio = envelope_ratio_interval(arm(), arm(), arm())
    assert ratio.low <= 1.005
    assert ratio.mean == pytest.approx(1.0, abs=0.01)


def test_repeats_must_pair():
    with pytest.raises(ValueError, match="2 repeats of none but 1 of always"):
        envelope_ratio_interval([1.0, 1.0], [1.0, 1.0], [1.0])
