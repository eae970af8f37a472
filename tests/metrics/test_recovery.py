"""The recovery curve, on made-up steps."""

from __future__ import annotations

from dataclasses import replace

from metrics.synthetic import plain_step, verify_step
from specswitch.metrics.acceptance import accept_length
from specswitch.metrics.ratio import Ratio
from specswitch.metrics.recovery import recovery_curve, resumed_phases, soon_after_resume


def phase(kind, *steps):
    return [replace(kind(float(i), **step), step_ms=5.0) for i, step in enumerate(steps)]


def plain(n, batch=8):
    return phase(plain_step, *[{"batch": batch}] * n)


def verify(*accepted, batch=2):
    return phase(verify_step, *[{"batch": batch, "accepted": a} for a in accepted])


def test_the_curve_pools_the_resumes_step_by_step():
    steps = [*verify(4), *plain(3), *verify(0, 2, 4), *plain(2), *verify(2, 2)]
    # (0 + 2) + (2 + 2) tokens of 2 + 2 requests, and so on; the third step was in one phase only.
    assert recovery_curve(steps, 4) == [Ratio(6, 4), Ratio(8, 4), Ratio(6, 2), Ratio(0, 0)]
    assert recovery_curve(steps, 4)[3].value is None


def test_steps_before_the_first_plain_one_are_no_resume():
    assert resumed_phases(verify(1, 2, 3)) == []
    assert recovery_curve(verify(1, 2, 3), 2) == [Ratio(0, 0)] * 2


def test_a_return_after_an_idle_phase_is_no_resume():
    first, *rest = verify(2, 2)
    assert resumed_phases([*plain(2), replace(first, step_ms=None), *rest]) == []


def test_soon_after_resume_takes_the_first_steps_only():
    steps = [*plain(1), *verify(0, 0, 6, 6)]
    assert soon_after_resume(steps, within=2) == Ratio(4, 4)
    assert soon_after_resume(steps, within=4) == accept_length(steps)


def test_an_arm_that_never_switches_has_no_curve():
    assert soon_after_resume(plain(5)).value is None
