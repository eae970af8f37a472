"""A point whose load changes: windowed numbers are missing, whole-run numbers are named so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from metrics.synthetic import plain_step, request, verify_step
from specswitch.metrics.crossing import crossing_metrics
from specswitch.metrics.window import Window


def measured():
    records = [request(0.0, 2.0, (0.5, 1.0, 1.5, 2.0)), request(1.0, 5.0, (2.5, 4.5), scheduled_s=0.75)]
    steps = [replace(plain_step(0.1 * i, batch=8), step_ms=5.0) for i in range(20)]
    steps += [
        replace(
            verify_step(3 + 0.1 * i, batch=2, accepted=2, switched=i == 0), step_ms=20.0 if i == 0 else 10.0
        )
        for i in range(20)
    ]
    return crossing_metrics(records, steps, Window(0.0, 4.0))


def test_nothing_windowed_is_claimed():
    row = measured()
    assert row["steady"] is None
    assert row["window_s"] is None
    for name in ("output_tok_s", "accept_length", "switches", "max_running_observed", "measured_requests"):
        assert row[name] is None
    assert set(row["ttft_ms"].values()) == {None}


def test_whole_run_numbers_count_everything_and_the_load_rate_leaves_the_drain_out():
    row = measured()
    assert row["output_tok_s_whole_run"] == pytest.approx(6 / 5)
    assert row["output_tok_s_load"] == pytest.approx(5 / 4)
    assert row["ttft_ms_whole_run"]["mean"] == pytest.approx((500 + 1500) / 2)
    assert row["queue_delay_ms_whole_run"]["p99"] == pytest.approx(250, rel=0.02)
    assert row["accept_length_whole_run"] == 2.0
    assert row["ratios"]["accept_length_whole_run"] == {"num": 80, "den": 40}
    assert row["switches_whole_run"] == 1
    assert row["max_running_whole_run"] == 8


def test_resumes_and_switch_costs_are_in_the_row():
    row = measured()
    assert row["resumes"] == 1
    assert row["ratios"]["accept_length_after_resume"] == {"num": 20, "den": 10}
    assert row["switch_cost_ms"] == {"to_plain": None, "to_speculative": pytest.approx(10.0)}
    assert row["switch_cost_steps"]["to_speculative"] == pytest.approx(1.0)


def test_a_server_without_counters_gives_none_and_the_row_is_plain_json():
    row = crossing_metrics([request(0.0, 1.0, (0.5,))], [], Window(0.0, 2.0))
    assert row["resumes"] is row["switches_whole_run"] is row["accept_length_whole_run"] is None
    json.dumps(row, allow_nan=False)
