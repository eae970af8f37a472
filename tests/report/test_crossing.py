"""A crossing run in words: claims need intervals, missing numbers stay missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from report.pages import figures_of
from results.crossing_runs import write_crossing
from specswitch.report import build
from specswitch.report import crossing as words
from specswitch.results import read_run
from specswitch.results.crossing import crossing


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return read_run(write_crossing(tmp_path_factory.mktemp("crossing") / "run"))


def test_the_lede_names_the_load(run):
    text = words.lede(run, crossing(run))
    assert "3 arms under the load square:low=2,high=12,period=4,duration=8, 2 repeats" in text


def test_speeds_are_held_against_none_and_always_with_their_intervals(run):
    none, always, dynamic = words.speeds(crossing(run))
    assert none.endswith("n = 2.")
    # One token in 5 ms or two in 10 ms: the arms are alike, and the words say so.
    assert "not distinguishable from none (1.00×" in always
    assert "not distinguishable from none (1.00×" in dynamic
    assert "not distinguishable from always-v2 (1.00×" in dynamic


def test_a_faster_arm_is_called_so(run):
    seen = crossing(run)
    faster = seen.points["output_tok_s_load"].where(seen.points["arm"] != "dynamic", lambda v: 1.5 * v)
    dynamic = words.speeds(replace(seen, points=seen.points.assign(output_tok_s_load=faster)))[2]
    assert "faster than none (1.50×" in dynamic
    assert "faster than always-v2 (1.50×" in dynamic


def test_one_repeat_is_told_from_nothing(tmp_path: Path):
    seen = crossing(read_run(write_crossing(tmp_path / "run", repeats=1)))
    assert "not yet to be told from none" in words.speeds(seen)[1]


def test_recovery_pools_the_first_steps_and_says_whether_that_is_enough(run):
    (sentence,) = words.recoveries(crossing(run))
    # Steps 1 and 2 at 1.5, steps 3 to 5 at 2.0, always-on 2.0: (2 x 1.5 + 3 x 2) / 5 / 2 = 0.9.
    assert "accept length of dynamic-v2-t4 is 0.900× (0.900 to 0.900), n = 2 of always-on" in sentence
    assert "below 0.95" in sentence


def test_costs_are_in_usual_steps_by_direction(run):
    (sentence,) = words.costs(crossing(run))
    assert "dynamic-v2-t4: a change back to speculative steps costs 1.0 usual steps" in sentence
    assert "to plain steps costs 0" in sentence


def test_the_arms_table_has_a_dash_where_there_is_no_number(run):
    table = words.arms(crossing(run))
    none = table.split("<tr>")[2]
    assert none.count(">–<") >= 3  # no accept length, no costs
    assert "2 of 2" in none


def test_a_client_that_came_late_is_flagged(run):
    seen = crossing(run)
    late = replace(seen, points=seen.points.assign(queue_delay_ms_whole_run_p99=80.0))
    assert not any(s.startswith("Flagged") for s in words.summary(run, seen))
    assert "Flagged late client (6 of 6 points): " in words.summary(run, late)[-2]


def test_a_run_without_points_says_so(tmp_path: Path):
    run = read_run(write_crossing(tmp_path / "run", fail_after=0))
    seen = crossing(run)
    assert words.summary(run, seen) == ["0 of 6 planned points finished; no request failed in them."]
    assert words.arms(seen).count("0 of 2") == 3


def test_a_failed_run_has_a_page_of_what_was_finished_under_a_banner(tmp_path: Path):
    page = build(write_crossing(tmp_path / "run", fail_after=2)).read_text(encoding="utf-8")
    assert "<title>FAILED: Specswitch crossing, tiny-target" in page
    assert "the server died" in page
    assert "2 of 6 points" in page
    # none and always-v2 were measured, the dynamic arm was not: no switch, no recovery.
    assert figures_of(page) == ["timeline", "rates"]
    assert "it needs an arm that resumed" in page
    # What speaks to whoever runs the notebook is not on the page.
    assert "In batch" not in page
    assert "trace:file" not in page
