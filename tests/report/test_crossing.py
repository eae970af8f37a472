"""A crossing run in words: claims need intervals, missing numbers stay missing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from report.pages import figures_of
from results.crossing_runs import write_crossing
from specswitch.report import build
from specswitch.report import crossing as words
from specswitch.report.findings import VERDICTS
from specswitch.results import read_run
from specswitch.results.crossing import RECOVERY_COLUMNS, crossing


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return read_run(write_crossing(tmp_path_factory.mktemp("crossing") / "run"))


def test_the_lede_names_the_load(run):
    text = words.lede(run, crossing(run))
    assert "3 arms under the load square:low=2,high=12,period=4,duration=8, 2 repeats, begun" in text


def test_one_repeat_is_one_repeat(tmp_path: Path):
    run = read_run(write_crossing(tmp_path / "run", labels=("none",), repeats=1))
    text = words.lede(run, crossing(run))
    assert "1 arm under" in text
    assert "1 repeat, begun" in text


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
    always = words.speeds(seen)[1]
    assert always.endswith("(one repeat, no interval), 1.00× none.")
    assert not any(verdict in always for verdict in VERDICTS)


def test_drawn_accept_lengths_are_no_recovery(tmp_path: Path):
    """Simulated acceptance is the same whatever the draft's KV cache holds: nothing may be read into it."""
    folder = write_crossing(tmp_path / "run")
    run = read_run(folder)
    seen = crossing(run)
    assert any("since a resume" in s for s in words.summary(run, seen))
    assert "needs an arm that resumed" in words.no_recovery(run)
    parameters = {**run.manifest["parameters"], "simulated_accept_length": 2.5}
    drawn = replace(run, manifest={**run.manifest, "parameters": parameters})
    assert crossing(drawn).recovery.empty
    assert not any("since a resume" in s for s in words.summary(drawn, crossing(drawn)))
    assert "drew every accept length" in words.no_recovery(drawn)


def test_recovery_pools_the_first_steps_and_says_whether_that_is_enough(run):
    (sentence,) = words.recoveries(crossing(run))
    # Steps 1 and 2 at 1.5, steps 3 to 5 at 2.0, always-on 2.0: (2 x 1.5 + 3 x 2) / 5 / 2 = 0.9.
    assert (
        "of dynamic-v2-t4 is 0.900× that of always-on (0.900 to 0.900), n = 2: shorter, told apart from 1, "
        in sentence
    )
    assert "and told to be below 0.95." in sentence


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (230, 231, ": longer, told apart from 1, and told to be at least 0.95."),
        (190, 191, ": shorter, told apart from 1; whether it is at least 0.95 is open."),
        (200, 201, ": not distinguishable from always-on, and told to be at least 0.95."),
        (190, 210, ": not distinguishable from always-on; whether it is at least 0.95 is open."),
        (50, 400, "is a share of always-on that is not known from these 2 repeats."),
    ],
)
def test_recovery_is_told_apart_from_1_in_either_direction_or_said_to_be_open(run, first, second, told):
    tokens = {0: first, 1: second}
    curve = [("dynamic-v2-t4", r, 1, tokens[r], 100, 400, 200) for r in tokens]
    seen = replace(crossing(run), recovery=pd.DataFrame(curve, columns=list(RECOVERY_COLUMNS)))
    (sentence,) = words.recoveries(seen)
    assert sentence.endswith(told)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((-0.5, 0.5), "has a cost not known from these 2 repeats"),
        ((-0.04, 0.03889), "costs 0.00 usual steps (-0.50 to 0.50), n = 2"),
        ((14.0, 14.4), "costs 14 usual steps (12 to 17), n = 2"),
    ],
)
def test_a_cost_has_sensible_digits_or_is_said_to_be_unknown(run, values, told):
    seen = crossing(run)
    dynamic = seen.points["arm"] == "dynamic"
    points = seen.points.assign(
        switch_cost_steps_to_plain=None,
        switch_cost_steps_to_speculative=seen.points["repeat"].map(dict(enumerate(values))).where(dynamic),
    )
    (sentence,) = words.costs(replace(seen, points=points))
    assert f"a change back to speculative steps {told}" in sentence


def test_a_speed_of_which_nothing_is_known_has_no_numbers(run):
    seen = crossing(run)
    wild = seen.points["output_tok_s_load"].where(seen.points["repeat"] == 0, 9.0)
    sentences = words.speeds(replace(seen, points=seen.points.assign(output_tok_s_load=wild)))
    assert sentences[0] == "How many tokens/s none makes is not known from these 2 repeats."
    assert (
        "always-v2 makes is not known from these 2 repeats, not distinguishable from none (1.00×"
        in sentences[1]
    )
    wild = wild.where(
        seen.points["arm"] != "always", [v * f for v, f in zip(wild, (1, 9, 1, 1, 1, 1) * 9, strict=False)]
    )
    apart = replace(seen, points=seen.points.assign(output_tok_s_load=wild))
    assert words.speeds(apart)[1].endswith("; to tell 3% apart, more than 1,000 repeats.")
    text = words.arms(apart)
    assert row_of(text, "Output, tokens/s while driven") == ["not known"] * 3


def test_costs_are_in_usual_steps_by_direction(run):
    (sentence,) = words.costs(crossing(run))
    assert "dynamic-v2-t4: a change back to speculative steps costs 1.0 usual steps" in sentence
    assert "to plain steps, with the prefills of the requests that caused it, costs 0" in sentence


def row_of(table: str, head: str) -> list[str]:
    """The cells of the arms table's row with this head, one per arm."""
    (row,) = [r for r in table.split("<tr>") if f">{head}<" in r]
    return re.findall(r"<td[^>]*>([^<]*)</td>", row)


def test_the_arms_table_has_a_column_per_arm_and_a_dash_where_there_is_no_number(run):
    table = words.arms(crossing(run))
    assert re.findall(r"<span>([^<]*)</span>", table) == ["", "none", "always-v2", "dynamic-v2-t4"]
    assert row_of(table, "Finished points") == ["2 of 2"] * 3
    assert row_of(table, "Accept length, verify steps")[0] == "–"
    assert row_of(table, "Change to speculative, usual steps")[:2] == ["–", "–"]
    assert row_of(table, "Failed requests, all repeats") == ["0"] * 3


def test_counts_that_differ_are_shown_and_the_note_is_true_of_what_is(run):
    seen = crossing(run)
    by_repeat = {"switches_whole_run": (8, 10), "queue_delay_ms_whole_run_p99": (0.0, 0.08)}
    points = seen.points.assign(
        **{k: seen.points["repeat"].map(dict(enumerate(v))) for k, v in by_repeat.items()}
    )
    table = words.arms(replace(seen, points=points))
    assert row_of(table, "Switches") == ["8 to 10"] * 3
    # Wider than the number, yet within 1 ms: shown, and the note says why.
    assert row_of(table, "Queue delay, p99, ms") == ["0.04 ± 0.51"] * 3
    assert "within ± 1 (ms, usual step)" in words.ARMS_NOTE


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
