"""The table of comparisons: verdicts follow the intervals, repeats follow the spread."""

from __future__ import annotations

import re

import pytest

from report.test_findings import table_of
from report.test_tables import body_rows
from specswitch.metrics.repeats import MOST, log_spread, repeats_needed
from specswitch.report.comparisons import comparison_table, comparisons, needed_words

TABLE = table_of(
    none={1: [100, 101, 99], 8: [800, 801, 799]},
    always_v2={1: [150, 152, 149], 8: [700, 900, 805]},
    dynamic_v2_t4={1: [150, 151, 149], 8: [790, 810, 800]},
)


def cells(html: str) -> list[list[str]]:
    """The words of every row."""
    return [re.findall(r">([^<]*)</t[hd]>", re.sub(r"</?span[^>]*>", "", row)) for row in body_rows(html)]


def test_each_arm_stands_against_its_baseline_and_dynamic_ones_against_the_envelope_too() -> None:
    found = [(c.label, c.against, c.concurrency) for c in comparisons(TABLE)]
    assert found == [
        ("always-v2", "none", 1),
        ("always-v2", "none", 8),
        ("dynamic-v2-t4", "none", 1),
        ("dynamic-v2-t4", "none", 8),
        ("dynamic-v2-t4", "envelope", 1),
        ("dynamic-v2-t4", "envelope", 8),
    ]


def test_an_interval_that_holds_one_is_called_not_distinguishable() -> None:
    always_1, always_8, *_ = cells(comparison_table(TABLE))
    assert "faster" in always_1
    assert "not distinguishable" in always_8


def test_the_repeats_needed_come_from_the_spread_of_this_very_comparison() -> None:
    quiet, noisy = (c for c in comparisons(TABLE) if c.label == "always-v2")
    for c in (quiet, noisy):
        assert c.needed == repeats_needed(log_spread(c.ratio))
    assert quiet.needed < 5
    assert noisy.needed > 50
    assert f"{noisy.needed:,}" in cells(comparison_table(TABLE))[1]


def test_the_words_name_the_worst_comparison_of_each_concurrency() -> None:
    worst = {at: max(c.needed for c in comparisons(TABLE) if c.concurrency == at) for at in (1, 8)}
    (sentence,) = needed_words(TABLE)
    assert f"{worst[1]} at C = 1, {worst[8]} at C = 8. This run has 3." in sentence


def test_a_spread_that_no_number_of_repeats_beats_is_said_to_be_so() -> None:
    wild = table_of(none={1: [1.0, 100.0, 1.0]}, always_v2={1: [100.0, 1.0, 50.0]})
    assert comparisons(wild)[0].needed == MOST + 1
    assert f"more than {MOST:,} at C = 1" in needed_words(wild)[0]


def test_a_ratio_of_which_nothing_is_known_has_no_numbers() -> None:
    wild = table_of(none={1: [100, 300, 100]}, always_v2={1: [200, 150, 300]})
    (row,) = cells(comparison_table(wild))
    assert row[3:7] == ["–", "–", "–", "not known from these 3 repeats"]


def test_one_repeat_tells_nothing() -> None:
    single = table_of(none={1: [100]}, always_v2={1: [500]})
    (row,) = cells(comparison_table(single))
    assert "one repeat tells nothing" in row
    assert row.count("–") == 3
    assert "Two repeats at least" in needed_words(single)[0]


def test_a_run_of_baselines_alone_compares_nothing() -> None:
    alone = table_of(none={1: [100, 101]})
    assert comparisons(alone) == []
    assert "No two arms" in needed_words(alone)[0]


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_table_says_how_many_repeats_were_made(repeats: int) -> None:
    rows = cells(comparison_table(table_of(none={1: [100] * repeats}, always_v2={1: [150] * repeats})))
    assert rows[0][7] == str(repeats)
