"""Latency by hand-made arrival times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.synthetic import request
from specswitch.metrics import latency
from specswitch.metrics.window import Window


def test_a_plain_stream_gives_the_textbook_numbers():
    record = request(10.0, 10.5, (10.1, 10.2, 10.4))
    assert latency.ttft_ms([record]) == pytest.approx([100])
    assert latency.itl_ms([record]) == pytest.approx([100, 200])
    assert latency.tpot_ms([record]) == pytest.approx([150])
    assert latency.e2e_ms([record]) == pytest.approx([500])


def test_itl_is_per_token_when_several_tokens_share_a_chunk():
    """B3: four tokens in one chunk after 80 ms are four times 20 ms, not once 80 ms and not three zeros."""
    record = request(0.0, 0.2, (0.1, 0.18, 0.18, 0.18, 0.18))
    assert latency.itl_ms([record]) == pytest.approx([20, 20, 20, 20])
    assert latency.tpot_ms([record]) == pytest.approx([20])


@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.integers(1, 6)), min_size=1, max_size=12))
def test_itl_has_a_value_per_token_after_the_first_chunk_and_sums_to_the_streaming_time(chunks):
    times, now = [], 0.0
    for gap, size in chunks:
        now += gap
        times += [now] * size
    values = latency.itl_ms([request(0.0, now, tuple(times))])
    assert len(values) == len(times) - chunks[0][1]
    assert sum(values) == pytest.approx((times[-1] - times[0]) * 1000, abs=1e-6)


def test_only_events_inside_the_window_count():
    records = [request(0.0, 2.0, (0.5, 1.5, 2.0)), request(1.0, 5.0, (1.2, 4.0, 5.0))]
    window = Window(1.0, 3.0)
    assert latency.ttft_ms(records, window) == pytest.approx([200])
    assert latency.itl_ms(records, window) == pytest.approx([1000, 500])
    assert latency.e2e_ms(records, window) == pytest.approx([2000])
    assert latency.tpot_ms(records, window) == pytest.approx([750])


def test_failed_requests_give_no_latency_and_cancelled_ones_no_end():
    failed = request(0.0, 1.0, (0.5, 1.0), outcome="failed")
    cancelled = request(0.0, 1.0, (0.5, 1.0), outcome="cancelled")
    assert latency.ttft_ms([failed]) == latency.itl_ms([failed]) == latency.e2e_ms([failed]) == []
    assert latency.ttft_ms([cancelled]) == pytest.approx([500])
    assert latency.e2e_ms([cancelled]) == latency.tpot_ms([cancelled]) == []


def test_an_answer_of_one_token_or_none_breaks_nothing():
    """B2: requests without a second token have no ITL and no TPOT, and the summary says None."""
    records = [request(0.0, 1.0, (0.5,)), request(0.0, 1.0, ())]
    assert latency.itl_ms(records) == latency.tpot_ms(records) == []
    assert latency.summary([]) == {"mean": None, "p50": None, "p90": None, "p99": None}


def test_queue_delay_is_kept_apart_from_latency():
    record = request(2.0, 2.5, (2.1,), scheduled_s=0.5)
    assert latency.queue_delay_ms([record]) == pytest.approx([1500])
    assert latency.e2e_ms([record]) == pytest.approx([500])


def test_percentiles_interpolate_between_neighbours():
    values = [float(v) for v in range(101)]
    assert latency.summary(values) == {"mean": 50.0, "p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert latency.percentile([1.0, 2.0], 0.5) == 1.5
    assert latency.percentile([7.0], 0.99) == 7.0
