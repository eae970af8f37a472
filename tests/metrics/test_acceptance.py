"""Acceptance counts verify steps only, and says None when there were none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.synthetic import plain_step, verify_step
from specswitch.metrics import acceptance
from specswitch.metrics.ratio import Ratio, pooled
from specswitch.metrics.records import StepRecord

ACCEPTS = [3, 0, 2, 1, 3, 0, 0, 1, 2, 3]


def test_plain_steps_enter_neither_rate_nor_length_but_the_speculated_share():
    """A3: ten verifies of three drafts and thirty plain tokens give 15/30, 2.5 and 25/55."""
    steps = [verify_step(float(i), accepted=a) for i, a in enumerate(ACCEPTS)]
    steps += [plain_step(100.0 + i) for i in range(30)]
    assert acceptance.accept_rate(steps) == Ratio(15, 30)
    assert acceptance.accept_rate(steps).value == 0.5
    assert acceptance.accept_length(steps).value == 2.5
    assert acceptance.speculated_tokens(steps) == Ratio(25, 55)
    assert acceptance.speculated_steps(steps) == Ratio(10, 40)


def test_accept_length_is_per_request_not_per_step():
    steps = [verify_step(0.0, batch=4, accepted=4), verify_step(1.0, batch=2, accepted=6)]
    assert acceptance.accept_length(steps) == Ratio(4 + 4 + 6 + 2, 6)


def test_everything_undefined_is_none_without_verify_steps():
    steps = [plain_step(0.0), plain_step(1.0)]
    assert acceptance.accept_length(steps).value is None
    assert acceptance.accept_rate(steps).value is None
    assert acceptance.speculated_steps(steps).value == 0.0
    assert acceptance.speculated_steps([]).value is None
    assert acceptance.switches([]) is None
    assert acceptance.max_running([]) is None
    assert acceptance.mean_running([]) is None


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 5), st.data()), min_size=1, max_size=20))
def test_accept_length_stays_between_one_and_all_drafts_plus_bonus(rows):
    steps = []
    for i, (batch, drafts, data) in enumerate(rows):
        accepted = data.draw(st.integers(0, batch * drafts))
        steps += [verify_step(float(i), batch, accepted, drafts), plain_step(i + 0.5, batch)]
    length, rate = acceptance.accept_length(steps).value, acceptance.accept_rate(steps).value
    assert 1.0 <= length <= max(drafts for _, drafts, _ in rows) + 1
    assert 0.0 <= rate <= 1.0


def test_switches_and_running_batches_are_read_from_the_steps():
    steps = [verify_step(0.0, 3), plain_step(1.0, 9, switched=True), verify_step(2.0, 3, switched=True)]
    assert acceptance.switches(steps) == 2
    assert acceptance.max_running(steps) == 9
    assert acceptance.mean_running(steps) == 5.0


def test_pooling_weighs_events_not_groups():
    assert pooled([Ratio(1, 1), Ratio(0, 9)]).value == pytest.approx(0.1)
    assert pooled([]).value is None


def test_requests_that_had_ended_before_a_step_are_not_counted_as_verified():
    """The overlap scheduler runs them once more and throws their tokens away: 3 live rows of 4 accept 5 drafts."""
    step = StepRecord(0.0, 4, "speculative", 9, 5, 8, 0, False, None)
    nobody = StepRecord(1.0, 1, "speculative", 0, 0, 0, 0, False, None)
    assert acceptance.accept_length([step, nobody]) == Ratio(8, 3)
    assert acceptance.accept_length([nobody]).value is None
    rate = acceptance.accept_rate([step, nobody]).value
    assert acceptance.accept_length([step, nobody]).value == pytest.approx(1 + 3 * rate)
