"""Doubtful points are flagged in the table and told at the top; sound ones are not."""

import pytest

from plots.tables import STATIC, made_up_table
from specswitch.report import tables
from specswitch.report.flags import flags, unequal_repeats, warnings

CASES = [
    ({"steady": False}, ["no steady window"]),
    ({"degenerate": True}, ["repetitive text"]),
    ({"cached_tokens": 12, "prompt_tokens": 48, "completed": 20}, ["warm cache"]),
    ({"cached_tokens": 9, "prompt_tokens": 48, "completed": 20}, []),
    ({"client_cpu_share": 0.97}, ["busy client"]),
    ({"queue_delay_ms_p99": 30.0}, ["late client"]),
    ({"queue_delay_ms_p99": None, "queue_delay_ms_whole_run_p99": 30.0}, ["late client"]),
    ({"queue_delay_ms_p99": 2.0}, []),
    ({"delivery_lag_share": 0.15}, ["late delivery"]),
    ({"delivery_lag_share": 0.006}, []),
    ({"delivery_lag_share": None}, []),
    ({"steady": True, "degenerate": False, "cached_tokens": 0, "client_cpu_share": 0.4}, []),
    ({"steady": None, "degenerate": None, "cached_tokens": None, "client_cpu_share": float("nan")}, []),
    ({}, []),
]


@pytest.mark.parametrize(("row", "expected"), CASES)
def test_a_point_gets_the_flags_that_hold(row, expected):
    assert flags(row) == expected


def test_b9_repetitive_text_is_told_with_its_count_and_shown_in_its_row():
    table = made_up_table(STATIC, (1, 4))
    table["degenerate"] = [i < 5 for i in range(len(table))]
    (sentence,) = warnings(table)
    assert sentence.startswith("Flagged repetitive text (5 of 24 points)")
    assert tables.points(table).count("repetitive text") == 5


def test_a_sound_table_has_no_warning():
    assert warnings(made_up_table(STATIC)) == []


def test_repeats_that_differ_too_much_are_told_with_the_worst():
    table = made_up_table(STATIC, (1, 4))
    assert unequal_repeats(table) == []
    row = table.index[(table["label"] == STATIC[0]) & (table["concurrency"] == 4)][0]
    table.loc[row, "output_tok_s"] /= 3
    (sentence,) = unequal_repeats(table)
    assert sentence.startswith("Not a quiet machine")
    assert f"({STATIC[0]} at C = 4; 1 of " in sentence


def test_a_load_over_time_is_judged_by_its_own_rate_and_no_rate_is_no_complaint():
    table = made_up_table(STATIC, (1,))
    table["output_tok_s_load"] = [100.0, *[40.0] * (len(table) - 1)]
    table["output_tok_s"] = None
    table["concurrency"] = None
    assert len(unequal_repeats(table)) == 1
    assert unequal_repeats(table.drop(columns=["output_tok_s", "output_tok_s_load"])) == []
