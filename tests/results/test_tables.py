"""The table that figures are drawn from: numeric types, gaps named, one row per planned point."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from results.made_up import V2, finish, plan, points, records, request, steps
from specswitch.config import Arm, Rule
from specswitch.metrics.goodput import Limits
from specswitch.results import Run, read_run, summary, table
from specswitch.results.store import open_store

DYNAMIC = Arm(mode="dynamic", path="v2", rule=Rule(threshold=4))


def partly_measured(folder: Path) -> pd.DataFrame:
    """Two arms, three repeats at C = 2, the very last point missing."""
    p = plan(arms=(V2, DYNAMIC), concurrencies=(2,), repeats=3)
    with open_store(folder, request(p)) as store:
        for point in points(p)[:-1]:
            finish(store, point)
    return table(read_run(folder))


def test_every_planned_point_has_a_row_and_a_missing_one_has_no_numbers(tmp_path: Path) -> None:
    frame = partly_measured(tmp_path)
    assert list(frame["status"]) == ["finished"] * 5 + ["missing"]
    last = frame.iloc[-1]
    assert (last["label"], last["concurrency"], last["repeat"]) == ("dynamic-v2-t4", 2, 2)
    assert pd.isna(last["output_tok_s"])
    assert pd.isna(last["accept_length_den"])


def test_numbers_have_numeric_types(tmp_path: Path) -> None:
    """Field case C16: concurrency is never text."""
    frame = partly_measured(tmp_path)
    assert frame["concurrency"].dtype == "Int64"
    assert frame["repeat"].dtype == "Int64"
    assert frame["threshold"].dtype == "Int64"
    assert frame["output_tok_s"].dtype == "float64"
    assert frame["ttft_ms_p99"].dtype == "float64"
    assert frame["synthetic"].dtype == "boolean"


def test_rates_keep_numerator_and_denominator(tmp_path: Path) -> None:
    row = partly_measured(tmp_path).iloc[0]
    assert row["accept_rate"] == pytest.approx(row["accept_rate_num"] / row["accept_rate_den"])
    assert row["speculated_share_steps"] == pytest.approx(0.5)
    assert (row["speculated_share_steps_num"], row["speculated_share_steps_den"]) == (4, 8)
    assert "speculated_share_tokens" in row


def windowed_run(folder: Path, **parameters: float) -> Run:
    """One finished point: four requests with TTFT 99 ms and TPOT 75 ms, five tokens each, in a window of 4 s."""
    p = plan(arms=(V2,), concurrencies=(2,))
    with open_store(folder, request(p, **parameters)) as store:
        (point,) = points(p)
        raw = store.write_raw(point.point_id, records(), steps())
        row = {"arm": "always", "label": "always-v2", "concurrency": 2, "repeat": 0}
        store.write_point(point.point_id, {**row, "window_start_s": 0.0, "window_end_s": 4.0}, raw)
    return read_run(folder)


def test_goodput_is_there_only_under_a_limit_and_is_computed_from_the_stored_requests(tmp_path: Path) -> None:
    assert "goodput_tok_s" not in table(windowed_run(tmp_path / "none", ttft_limit_ms=None))
    row = table(windowed_run(tmp_path / "limit", ttft_limit_ms=100, tpot_limit_ms=80)).iloc[0]
    assert (row["goodput_req_s"], row["goodput_tok_s"]) == (1.0, 5.0)
    assert (row["goodput_requests_num"], row["goodput_requests_den"]) == (4, 4)
    assert (row["ttft_limit_ms"], row["tpot_limit_ms"]) == (100, 80)


def test_the_same_run_can_be_judged_under_another_limit(tmp_path: Path) -> None:
    run = windowed_run(tmp_path, ttft_limit_ms=100)
    row = table(run, Limits(tpot_ms=70)).iloc[0]
    assert (row["goodput_requests"], row["goodput_requests_den"]) == (0.0, 4)
    assert pd.isna(row["ttft_limit_ms"])


def test_the_figures_take_the_table_as_it_is(tmp_path: Path) -> None:
    grid = pytest.importorskip("specswitch.plots.grid")
    g = grid.Grid(partly_measured(tmp_path))
    assert g.labels == ["always-v2", "dynamic-v2-t4"]
    assert g.mean("always-v2", "output_tok_s").points[0].n == 3
    assert g.mean("dynamic-v2-t4", "output_tok_s").points[0].n == 2
    assert g.counts("always-v2", 2, "accept_length") is not None


def test_summary_is_mean_with_t_interval_over_repeats() -> None:
    frame = pd.DataFrame(
        {
            "status": ["finished"] * 5 + ["missing"],
            "label": ["a", "a", "a", "b", "c", "a"],
            "concurrency": [2, 2, 2, 2, 2, 4],
            "output_tok_s": [10.0, 12.0, 14.0, 5.0, None, None],
        }
    )
    result = summary(frame, ["output_tok_s"])
    assert list(result["label"]) == ["a", "b"]
    a, b = result.iloc[0], result.iloc[1]
    assert (a["mean"], a["n"]) == (12.0, 3)
    assert a["high"] - a["mean"] == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
    assert a["mean"] - a["low"] == pytest.approx(a["high"] - a["mean"])
    assert b["n"] == 1
    assert pd.isna(b["low"])
