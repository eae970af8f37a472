"""Changes of mode and their cost, on made-up steps whose times are known."""

from __future__ import annotations

import pytest

from specswitch.metrics.mode_changes import change_indices, mean_relative, mode_changes
from specswitch.metrics.records import StepRecord


def steps_of(*phases):
    """Steps from (mode, batch, [step_ms, ...])."""
    found = []
    for mode, batch, times in phases:
        for ms in times:
            first = bool(found) and found[-1].mode != mode
            found.append(StepRecord(len(found), batch, mode, 0, 0, batch, 0, first, ms))
    return found


def test_every_change_of_mode_is_found_where_it_happens():
    steps = steps_of(("plain", 8, [5.0] * 3), ("speculative", 4, [9.0] * 2), ("plain", 8, [5.0] * 2))
    assert change_indices(steps) == [3, 5]
    assert [(c.to, c.batch, c.t_s) for c in mode_changes(steps)] == [("speculative", 4, 3), ("plain", 8, 5)]


def test_a_change_across_an_idle_phase_is_none():
    steps = steps_of(("plain", 8, [5.0] * 3), ("speculative", 4, [None, 9.0]))
    assert change_indices(steps) == []


def test_the_first_step_of_a_log_is_no_change_whatever_the_server_did_before():
    first = StepRecord(0.0, 2, "speculative", 6, 2, 4, 0, True, 9.0)
    assert change_indices([first]) == []


def test_the_cost_is_what_the_steps_after_the_change_took_beyond_the_usual():
    steps = steps_of(("plain", 4, [5.0] * 20), ("speculative", 4, [25.0, 12.0, 10.0, 10.0] + [10.0] * 20))
    (change,) = mode_changes(steps, reach=4)
    assert change.cost_ms == pytest.approx(15.0 + 2.0)
    assert change.cost_steps == pytest.approx(1.7)
    assert change.relative == pytest.approx((1, 1, 1, 1, 2.5, 1.2, 1, 1))


def test_a_larger_batch_is_held_against_its_own_usual_time():
    steps = steps_of(
        ("plain", 12, [8.0] * 20),
        ("plain", 5, [6.0] * 20),
        ("speculative", 4, [10.0] * 20),
        ("plain", 5, [6.0] * 4),
        ("plain", 12, [8.0] * 20),
    )
    assert [c.cost_ms for c in mode_changes(steps)] == pytest.approx([0.0, 0.0])


def test_a_batch_that_was_never_usual_takes_the_nearest_that_was():
    steps = steps_of(
        ("speculative", 2, [10.0] * 20),
        ("plain", 7, [9.0] * 4),
        ("plain", 8, [6.0] * 20),
        ("plain", 20, [60.0] * 9),
    )
    (change,) = mode_changes(steps)
    assert change.cost_ms == pytest.approx(4 * 3.0)


def test_without_enough_undisturbed_steps_there_is_no_cost_and_no_zero():
    (change,) = mode_changes(steps_of(("plain", 4, [5.0] * 6), ("speculative", 4, [9.0] * 6)))
    assert change.cost_ms is None
    assert change.cost_steps is None
    assert set(change.relative) == {None}


def test_steps_that_belong_to_a_neighbouring_change_are_left_out():
    steps = steps_of(
        ("plain", 4, [5.0] * 20),
        ("speculative", 4, [12.0, 10.0]),
        ("plain", 4, [5.0] * 20),
        ("speculative", 4, [10.0] * 30),
    )
    first, second, _ = mode_changes(steps)
    assert first.relative[-2:] == (None, None)
    assert first.cost_ms == pytest.approx(2.0)
    assert second.relative[:2] == (None, None)


def test_the_mean_over_changes_is_by_mode_and_position():
    steps = steps_of(
        ("plain", 4, [5.0] * 20),
        ("speculative", 4, [20.0] + [10.0] * 19),
        ("plain", 4, [5.0] * 20),
        ("speculative", 4, [40.0] + [10.0] * 19),
    )
    changes = mode_changes(steps, reach=2)
    assert mean_relative(changes, "speculative") == pytest.approx([1.0, 1.0, 3.0, 1.0])
    assert mean_relative(changes, "plain") == pytest.approx([1.0] * 4)
    assert mean_relative([], "plain") == []
