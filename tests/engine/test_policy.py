"""The policy, exhaustively: every small batch, mode and dwell, and random walks against a plain restatement."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specswitch.engine.policy import Mode, Rule, RuleError, Switch, load_batch_table, parse_ranges

PLAIN, SPEC = Mode.PLAIN, Mode.SPECULATIVE


def test_threshold_is_the_largest_batch_that_speculates() -> None:
    for threshold, batch, mode in itertools.product(range(9), range(1, 12), (PLAIN, SPEC)):
        expected = SPEC if batch <= threshold else PLAIN
        assert Rule(threshold).next_mode(batch, mode, steps_in_mode=1) is expected


def test_zero_never_speculates_and_none_always_does() -> None:
    for batch in range(1, 300):
        assert Rule(0).next_mode(batch, SPEC, 99) is PLAIN
        assert Rule(None).next_mode(batch, PLAIN, 99) is SPEC


def test_hysteresis_keeps_the_mode_between_the_two_thresholds() -> None:
    for upper in range(1, 9):
        for lower in range(upper + 1):
            rule = Rule(upper, enable_threshold=lower)
            for batch in range(1, 12):
                assert rule.next_mode(batch, SPEC, 1) is (SPEC if batch <= upper else PLAIN)
                assert rule.next_mode(batch, PLAIN, 1) is (SPEC if batch <= lower else PLAIN)


def test_dwell_holds_every_mode_for_its_steps() -> None:
    for dwell, steps, batch, mode in itertools.product(range(1, 6), range(8), (1, 99), (PLAIN, SPEC)):
        chosen = Rule(8, dwell=dwell).next_mode(batch, mode, steps)
        assert chosen is (mode if steps < dwell else (SPEC if batch <= 8 else PLAIN))


@given(
    batches=st.lists(st.integers(1, 20), min_size=1, max_size=200),
    threshold=st.integers(0, 12),
    gap=st.integers(0, 6),
    dwell=st.integers(1, 9),
)
def test_however_the_batch_moves_switches_are_bounded(
    batches: list[int], threshold: int, gap: int, dwell: int
) -> None:
    switch = Switch(Rule(threshold, enable_threshold=max(0, threshold - gap), dwell=dwell))
    modes = [switch.step(b)[0] for b in batches]
    assert switch.switches <= math.ceil(len(batches) / dwell)
    runs = [len(list(g)) for _, g in itertools.groupby(modes)]
    assert all(r >= dwell for r in runs[1:-1]), "a mode in the middle was left before its dwell"
    # Restated from the definition, the switch must agree step by step.
    mode, since = SPEC, dwell
    for batch, chosen in zip(batches, modes, strict=True):
        bound = threshold if mode is SPEC else max(0, threshold - gap)
        wanted = SPEC if batch <= bound else PLAIN
        if since >= dwell and wanted is not mode:
            mode, since = wanted, 0
        since += 1
        assert chosen is mode


def test_ranges_take_the_place_of_the_threshold() -> None:
    rule = Rule(ranges=((1, 4), (8, 9)))
    on = [b for b in range(1, 13) if rule.next_mode(b, PLAIN, 1) is SPEC]
    assert on == [1, 2, 3, 4, 8, 9]


def test_a_new_rule_counts_from_the_next_step_whatever_the_old_dwell() -> None:
    switch = Switch(Rule(8, dwell=50))
    assert switch.step(20) == (PLAIN, True)
    switch.set_rule(Rule(32, dwell=50))
    assert switch.step(20) == (SPEC, True)


@pytest.mark.parametrize(
    ("kwargs", "names"),
    [
        ({"threshold": -1}, "-1"),
        ({"threshold": True}, "True"),
        ({"threshold": 2.5}, "2.5"),
        ({"threshold": 4, "enable_threshold": 5}, "enable_threshold=5"),
        ({"enable_threshold": 2}, "enable_threshold=2"),
        ({"threshold": 4, "dwell": 0}, "dwell=0"),
        ({"threshold": 4, "ranges": ((1, 2),)}, "threshold=4"),
    ],
)
def test_impossible_rules_are_refused_by_value(kwargs: dict, names: str) -> None:
    with pytest.raises(RuleError, match=names):
        Rule(**kwargs)


@pytest.mark.parametrize(
    "bad", [[], "x", [[1]], [[0, 3]], [[4, 2]], [[1, 5], [5, 9]], [[7, 9], [1, 2]], [[1, 2.0]]]
)
def test_batch_tables_must_ascend_and_not_overlap(bad: object) -> None:
    with pytest.raises(RuleError):
        parse_ranges(bad)


def test_batch_table_file_round_trip_and_faults(tmp_path) -> None:
    good = tmp_path / "table.json"
    good.write_text('{"speculate": [[1, 8], [33, 64]]}', encoding="utf-8")
    assert load_batch_table(str(good)) == ((1, 8), (33, 64))
    bad = tmp_path / "bad.json"
    bad.write_text('{"on": [[1, 8]]}', encoding="utf-8")
    with pytest.raises(RuleError, match="speculate"):
        load_batch_table(str(bad))
    with pytest.raises(RuleError, match=r"missing\.json"):
        load_batch_table(str(tmp_path / "missing.json"))


def test_changes_keep_a_rule_possible() -> None:
    rule = Rule(8, enable_threshold=6)
    assert rule.changed(threshold=4) == Rule(4)
    assert rule.changed(threshold=7) == Rule(7, enable_threshold=6)
    assert rule.changed(threshold=None) == Rule(None)
    assert rule.changed(ranges=((1, 2),)) == Rule(ranges=((1, 2),))
    assert Rule(ranges=((1, 2),)).changed(threshold=3) == Rule(3)
