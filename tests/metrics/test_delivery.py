"""A front end or client that falls behind shows in the last token; what cannot be known is None."""

import pytest

from specswitch.metrics.delivery import delivery
from specswitch.metrics.point import point_metrics
from specswitch.metrics.records import RequestRecord, StepRecord

UNKNOWN = {"delivery_lag_s": None, "delivery_lag_share": None}


def _request(*times: float, outcome: str = "ok") -> RequestRecord:
    return RequestRecord(0, 0.0, 0.0, times[-1] if times else 0.0, token_times_s=times, outcome=outcome)


def _step(t_s: float, emitted: int = 1) -> StepRecord:
    return StepRecord(t_s, 1, "plain", 0, 0, emitted, 0, False, None)


def test_the_lag_is_that_of_the_last_token_behind_the_last_step_that_made_any():
    found = delivery(
        [_request(1.0, 2.0), _request(1.5, 5.0)], [_step(1.9), _step(4.0), _step(4.9, emitted=0)]
    )
    assert found == {"delivery_lag_s": pytest.approx(1.0), "delivery_lag_share": pytest.approx(0.25)}


def test_clocks_that_differ_by_a_hair_are_no_negative_lag():
    assert delivery([_request(1.0, 2.0)], [_step(2.001)])["delivery_lag_s"] == 0.0


@pytest.mark.parametrize(
    ("records", "steps"),
    [
        ([_request(1.0, 2.0)], []),
        ([_request(1.0, 2.0)], [_step(1.0, emitted=0)]),
        ([_request()], [_step(1.0)]),
        ([_request(1.0, 2.0), _request(1.0, outcome="cancelled")], [_step(2.0)]),
    ],
)
def test_without_steps_or_tokens_or_with_requests_ended_early_it_is_not_known(records, steps):
    assert delivery(records, steps) == UNKNOWN


def test_a_single_moment_has_a_lag_and_no_share():
    assert delivery([_request(2.0)], [_step(1.5)]) == {"delivery_lag_s": 0.5, "delivery_lag_share": None}


def test_it_is_in_the_numbers_of_a_point():
    assert point_metrics([_request(1.0, 3.0)], [_step(2.5)], None)["delivery_lag_s"] == pytest.approx(0.5)
