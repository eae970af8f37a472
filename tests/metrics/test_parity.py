"""Arms that did not run the same batch are not comparable."""

from __future__ import annotations

import pytest

from specswitch.metrics.parity import admission_parity


def test_a_capped_arm_is_named():
    parity = admission_parity(128, {"none": 128, "always-v2": 48})
    assert parity.ok is False
    assert "always-v2 ran at most 48" in parity.message
    assert "--max-running-requests" in parity.message


@pytest.mark.parametrize(
    ("most", "ran", "nearly"),
    [(16, 15, True), (2, 1, False), (32, 30, True), (16, 14, False), (128, 48, False)],
)
def test_an_arm_that_nearly_ran_the_batch_is_told_to_be_measured_longer(
    most: int, ran: int, nearly: bool
) -> None:
    parity = admission_parity(most, {"none": most, "always-v2": ran})
    assert parity.ok is False
    assert ("measure longer (window_s" in parity.message) is nearly
    assert ("--max-running-requests" in parity.message) is not nearly


def test_arms_within_five_per_cent_are_on_a_par():
    assert admission_parity(64, {"none": 64, "always-v1": 62, "always-v2": None}).ok is True


def test_one_arm_alone_gives_no_verdict():
    assert admission_parity(8, {"none": 8, "always-v1": None}).ok is None
