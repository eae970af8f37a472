"""Throughput counts tokens by arrival, and its peak cannot be below its mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.synthetic import request
from specswitch.metrics import throughput
from specswitch.metrics.window import Window


def test_tokens_count_where_they_arrive_whatever_became_of_the_request():
    records = [
        request(0.0, 3.0, (0.5, 1.0, 1.5, 3.0)),
        request(0.0, 2.0, (1.9,), outcome="cancelled"),
    ]
    assert throughput.tokens_in(records, Window(1.0, 3.0)) == 3
    assert throughput.output_throughput(records, Window(1.0, 3.0)) == 1.5
    assert throughput.whole_run_throughput(records) == pytest.approx(5 / 3)


def test_no_window_no_rate():
    assert throughput.output_throughput([], None) is None
    assert throughput.peak_throughput([], None) is None
    assert throughput.whole_run_throughput([]) is None


@given(
    st.lists(st.floats(0.0, 9.99), min_size=1, max_size=200),
    st.floats(0.1, 9.9),
)
def test_the_peak_second_is_never_below_the_mean(times, end):
    """B3: peak per-second throughput below the mean is impossible."""
    records = [request(0.0, 10.0, tuple(sorted(times)))]
    window = Window(0.0, end)
    mean = throughput.output_throughput(records, window)
    assert throughput.peak_throughput(records, window) >= mean - 1e-9
    slices = throughput.per_second(records, window)
    assert sum(slices) / len(slices) == pytest.approx(mean)
