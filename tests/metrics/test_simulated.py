"""The scatter that the draws of simulated acceptance make, against draws made here."""

import random
import statistics

import pytest

from specswitch.metrics.simulated import draw_scatter


@pytest.mark.parametrize(("stated", "steps"), [(2.5, 40), (1.25, 100), (3.9, 25)])
def test_as_wide_as_draws_of_the_two_whole_numbers_beside_it(stated, steps):
    lot = random.Random(3)
    below = int(stated)
    means = [
        statistics.fmean(below + (lot.random() < stated - below) for _ in range(steps)) for _ in range(4000)
    ]
    assert statistics.fmean(means) == pytest.approx(stated, rel=0.01)
    assert draw_scatter(stated, steps) == pytest.approx(statistics.stdev(means) / stated, rel=0.05)


def test_a_whole_number_is_not_drawn():
    assert draw_scatter(3.0, 10) == 0.0


@pytest.mark.parametrize("steps", [0, -1, float("nan")])
def test_without_a_step_there_is_no_scatter(steps):
    with pytest.raises(ValueError, match="verify steps"):
        draw_scatter(2.5, steps)
