"""The words at the top: arms explained, capped arms told, the state of the run counted."""

import re

import pytest

from plots.tables import STATIC, made_up_table
from report.built import run_of
from specswitch.report import overview


def test_the_lede_names_models_device_and_grid():
    run, points = overview.open_run(str(run_of("failed")))
    text = overview.lede(run, points)
    assert text.startswith("tiny-target with the EAGLE-3 draft tiny-eagle3, served by SGLang 0.5.12")
    assert "4 arms at 4 concurrencies, 3 repeats" in text


def test_the_state_counts_points_and_failed_requests():
    run, points = overview.open_run(str(run_of("failed")))
    assert overview.state(run, points) == "18 of 48 planned points finished; no request failed in them."
    points.loc[0, "failed"] = 2
    assert "2 requests failed in them" in overview.state(run, points)


def test_a_capped_arm_is_told_at_the_top():
    run, _ = overview.open_run(str(run_of("failed")))
    points = made_up_table(STATIC)
    assert not any("Not the same load" in s for s in overview.summary(run, points))
    points.loc[(points["label"] == "always-v1") & (points["concurrency"] == 32), "max_running_observed"] = 16
    assert any(
        s.startswith("Not the same load: C=32: always-v1 ran at most 16")
        for s in overview.summary(run, points)
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"label": "none-sync", "arm": "none", "path": "none"}, "fair partner of v1"),
        (
            {"label": "always-v2", "arm": "always", "path": "v2"},
            "v2 worker, overlap scheduling; every decode step",
        ),
        (
            {"label": "dynamic-v1-t8", "arm": "dynamic", "path": "v1", "threshold": 8},
            "running batch is at most 8",
        ),
        ({"label": "off-v2-lazy", "arm": "off", "path": "v2", "threshold": 0}, "switched off at every batch"),
        ({"label": "something-new", "arm": "else", "path": "v3"}, "something-new"),
    ],
)
def test_arms_are_told_in_words(row, words):
    assert words in overview.arm_in_words(row)


def test_the_arms_table_has_the_sync_rule_that_was_reported_and_a_dash_where_there_is_none():
    points = made_up_table(("none", "dynamic-v2-t8"))
    points["sync"] = points["arm"].map({"dynamic": "lazy"})
    _, none, dynamic = overview.arms(points).split("<tr>")[1:]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", dynamic)[1] == "lazy"
    assert re.findall(r"<td[^>]*>([^<]*)</td>", none)[1] == "–"


def test_without_an_envelope_the_summary_tells_dynamic_arms_by_their_baseline_and_against_each_other():
    run, _ = overview.open_run(str(run_of("failed")))
    points = made_up_table(("none", "dynamic-v2-t4", "dynamic-v2-t16"))
    told = overview.summary(run, points)
    assert any(s.startswith("dynamic-v2-t4 is faster than none at ") for s in told)
    assert any(
        s.startswith("Of the dynamic arms on v2, dynamic-v2-t16 makes the most tokens/s at C = ")
        for s in told
    )
    with_always = overview.summary(
        run, made_up_table(("none", "always-v2", "dynamic-v2-t4", "dynamic-v2-t16"))
    )
    assert not any(s.startswith("dynamic-v2-t4 is ") for s in with_always)
    assert any(s.startswith("Of the dynamic arms on v2") for s in with_always)
