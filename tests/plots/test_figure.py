"""What is written of an interval: digits that stand side by side, and words where the interval says nothing."""

import pytest

from specswitch.metrics.intervals import Interval
from specswitch.plots.figure import TIMES, interval_text, known, number


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(1234.0, 1200.0, 1268.0, 3), "1,234 ms (1,200 to 1,268), n = 3"),
        (Interval(312.0, -2318.0, 2942.0, 2), "not known from these 2 repeats"),
        (Interval(312.0, 10.0, 614.0, 2), "312 ms (10 to 614), n = 2"),
        (Interval(312.0, None, None, 1), "312 ms (one repeat, no interval)"),
    ],
)
def test_a_mean_narrower_than_itself_is_told_in_numbers(interval, text):
    assert interval_text(interval, 3, " ms") == text


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        (Interval(1.0, 0.51, 1.96, 2), True),
        (Interval(1.0, 0.49, 2.04, 2), False),
        (Interval(9.0, 1.01, 80.0, 2), True),  # wild, but above 1
        (Interval(0.1, 0.01, 0.99, 2), True),
        (Interval(1.0, -3.0, 5.0, 2), False),
    ],
)
def test_a_ratio_is_known_if_it_leaves_out_1_or_not_more_than_a_factor_of_4_open(interval, says):
    assert known(interval, TIMES) is says
    assert known(interval, f"{TIMES} of the envelope") is says
    assert ("not known" in interval_text(interval, 3, TIMES)) is not says


def test_a_small_half_width_says_enough_of_a_mean_near_0():
    near = Interval(-0.00056, -0.48, 0.47, 2)
    assert not known(near)
    assert interval_text(near, 2, " usual steps", small=1.0) == "0.00 usual steps (-0.48 to 0.47), n = 2"


@pytest.mark.parametrize(
    ("value", "beside", "text"),
    [
        (0.00046, 0.5, "0.000"),
        (-0.00046, 0.5, "0.000"),
        (-0.31, 0.5, "-0.310"),
        (0.2, 1234.0, "0"),
        (0.2, 0, "0.200"),
    ],
)
def test_a_number_far_below_its_neighbour_has_no_more_decimals(value, beside, text):
    assert number(value, beside=beside) == text
