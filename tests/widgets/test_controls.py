"""The rule's controls: every position is a possible rule, and showing a rule is not moving a control."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specswitch.config import Rule
from specswitch.widgets.controls import RuleControls


class Moves:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@given(st.integers(0, 32), st.integers(0, 32), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_position_is_a_rule(threshold: int, band: int, always: bool) -> None:
    controls = RuleControls(Rule(threshold=4), 32, Moves())
    controls.threshold.value, controls.band.value, controls.always.value = threshold, band, always
    rule = controls.rule
    assert rule.threshold == (None if always else threshold)
    if rule.enable_threshold is not None:
        assert rule.enable_threshold == max(0, threshold - band)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(threshold=8, enable_threshold=3, dwell=7, sync="eager"),
        Rule(threshold=0, sync="stale"),
        Rule(threshold=None, dwell=2, sync="lazy"),
        Rule(threshold=500, enable_threshold=100, sync="lazy", dwell=1),
    ],
)
def test_a_rule_that_is_shown_is_read_back_and_nobody_moved_anything(rule: Rule) -> None:
    moves = Moves()
    controls = RuleControls(Rule(threshold=4), 32, moves)
    controls.show(rule)
    assert controls.rule == rule
    assert moves.count == 0
    controls.dwell.value += 1
    assert moves.count == 1


def test_a_users_move_counts_while_another_thread_shows_a_rule() -> None:
    """The guard belongs to the thread that shows, or a user's move at that moment would be lost."""
    moves = Moves()
    controls = RuleControls(Rule(threshold=4), 32, moves)
    shown = threading.Event()

    def user_moves(_: object) -> None:
        if not shown.is_set():
            shown.set()
            other = threading.Thread(target=lambda: setattr(controls.threshold, "value", 9))
            other.start()
            other.join()

    controls.dwell.observe(user_moves, "value")
    controls.show(Rule(threshold=4, dwell=3))
    assert shown.is_set()
    assert moves.count == 1
    assert controls.threshold.value == 9
