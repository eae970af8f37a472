"""Goodput: who counts as good, in numerator and denominator, and what a limit does to it."""

from __future__ import annotations

import pytest

from metrics.synthetic import request
from specswitch.metrics.goodput import Limits, good_requests, good_tokens, goodput, is_good
from specswitch.metrics.throughput import output_throughput
from specswitch.metrics.window import Window

WINDOW = Window(0.0, 10.0)


def served(ttft_s: float, tpot_s: float, tokens: int = 5, sent_s: float = 1.0, **other):
    """A request with this TTFT and TPOT, in seconds."""
    times = tuple(sent_s + ttft_s + i * tpot_s for i in range(tokens))
    return request(sent_s, times[-1], times, **other)


def test_both_limits_must_be_met_and_the_limit_itself_is_met() -> None:
    limits = Limits(ttft_ms=250, tpot_ms=125)
    assert is_good(served(0.25, 0.125), limits)
    assert not is_good(served(0.3, 0.01), limits)
    assert not is_good(served(0.01, 0.2), limits)


def test_a_limit_that_was_not_asked_for_holds_nobody_up() -> None:
    slow_start, slow_tokens = served(5.0, 0.01), served(0.01, 0.5)
    assert is_good(slow_start, Limits(tpot_ms=20))
    assert is_good(slow_tokens, Limits(ttft_ms=20))
    assert is_good(served(9.0, 9.0), Limits())


def test_one_token_has_no_tpot_and_a_chunk_of_tokens_counts_by_token() -> None:
    assert is_good(served(0.1, 0.0, tokens=1), Limits(tpot_ms=1))
    together = request(0.0, 1.0, (0.2, 0.6, 0.6, 0.6, 0.6))
    assert is_good(together, Limits(tpot_ms=100))
    assert not is_good(together, Limits(tpot_ms=99))


def test_failed_requests_are_in_the_denominator_cancelled_and_outside_ones_are_not() -> None:
    records = [
        served(0.1, 0.1),
        served(3.0, 0.1),
        served(0.1, 0.1, outcome="failed", error="cut"),
        served(0.1, 0.1, outcome="cancelled"),
        served(0.1, 0.1, sent_s=20.0),
    ]
    found = good_requests(records, WINDOW, Limits(ttft_ms=500))
    assert (found.num, found.den) == (1, 3)


def test_tokens_count_by_arrival_and_requests_as_a_whole() -> None:
    over_the_end = served(0.5, 1.0, tokens=5, sent_s=7.0)  # tokens at 7.5 ... 11.5
    late = served(4.0, 0.1, tokens=3, sent_s=1.0)
    found = good_tokens([over_the_end, late], WINDOW, Limits(ttft_ms=1000))
    assert (found.num, found.den) == (3, 6)


def test_with_generous_limits_goodput_is_the_output_throughput() -> None:
    records = [served(0.2, 0.1, sent_s=float(s)) for s in range(12)]
    columns = goodput(records, WINDOW, Limits(ttft_ms=1e6, tpot_ms=1e6))
    assert columns["goodput_tok_s"] == output_throughput(records, WINDOW)
    assert columns["goodput_requests"] == columns["goodput_tokens"] == 1


def test_columns_hold_rate_share_numerator_and_denominator() -> None:
    records = [served(0.2, 0.1), served(0.2, 0.1), served(0.9, 0.1), served(0.9, 0.1)]
    columns = goodput(records, WINDOW, Limits(ttft_ms=500))
    assert columns == {
        "goodput_req_s": 0.2,
        "goodput_tok_s": 1.0,
        "goodput_requests": 0.5,
        "goodput_requests_num": 2,
        "goodput_requests_den": 4,
        "goodput_tokens": 0.5,
        "goodput_tokens_num": 10,
        "goodput_tokens_den": 20,
    }


def test_without_a_window_there_is_no_goodput_and_nothing_ended_means_no_share() -> None:
    assert set(goodput([served(0.1, 0.1)], None, Limits(ttft_ms=1)).values()) == {None}
    empty = goodput([], WINDOW, Limits(ttft_ms=1))
    assert empty["goodput_req_s"] == 0
    assert empty["goodput_requests"] is None


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_limit_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="tpot_limit_ms="):
        Limits(tpot_ms=value)
