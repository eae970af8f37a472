"""Every point is in the table, missing values are dashes, parity shows who was capped."""

import re

import pandas as pd

from plots.tables import STATIC, made_up_table
from results.crossing_runs import write_crossing
from specswitch.report import tables
from specswitch.results import read_run
from specswitch.results import table as results_table


def body_rows(html):
    return re.findall(r"<tr>(.*?)</tr>", html.split("<tbody>")[1], re.S)


def test_every_point_has_its_row_in_reading_order():
    table = made_up_table(STATIC).sample(frac=1, random_state=1)
    rows = body_rows(tables.points(table))
    assert len(rows) == len(table)
    assert ">none<" in rows[0]
    assert ">always-v2<" in rows[-1]


def test_a_missing_value_is_a_dash_and_sorts_last():
    row = made_up_table(("none",), (1,), 1)
    (text,) = body_rows(tables.points(row))
    assert (
        text.count('data-value="">–<') == 4
    )  # accept length, accept rate, speculated of steps and of tokens


def test_failed_points_and_failed_requests_stand_out():
    table = made_up_table(("none",), (1,), 2)
    table.loc[0, "status"] = "failed"
    table.loc[1, "failed"] = 3
    rows = body_rows(tables.points(table))
    assert 'class="bad">failed<' in rows[0]
    assert 'class="number bad" data-value="3">3<' in rows[1]


def test_parity_fails_where_an_arm_ran_fewer_requests():
    table = made_up_table(("none", "always-v2"), (8, 32), 2)
    capped = (table["label"] == "always-v2") & (table["concurrency"] == 32) & (table["repeat"] == 1)
    table.loc[capped, "max_running_observed"] = 20
    low, high = tables.parities(table)
    assert (low.ok, high.ok) == (True, False)
    html = tables.parity(table)
    assert html.count("different load") == 1
    assert html.count("same load") == 1


def test_parity_of_unknown_batches_is_not_claimed():
    table = made_up_table(("none", "always-v2"), (8,), 1).drop(columns="max_running_observed")
    assert "not comparable" in tables.parity(table)


def test_paths_in_text_cells_are_cut():
    table = made_up_table(("none",), (1,), 1)
    table["worker_class"] = "/srv/models/x/Worker"
    assert "/srv/" not in tables.points(table)


def test_an_empty_table_is_an_empty_table():
    empty = pd.DataFrame(columns=["label", "concurrency", "repeat"])
    assert body_rows(tables.points(empty)) == []
    assert body_rows(tables.parity(empty)) == []


def test_the_points_of_a_crossing_run_have_their_numbers_and_flags(tmp_path):
    points = results_table(read_run(write_crossing(tmp_path / "run", fail_after=5)))
    points.loc[points["label"] == "none", "queue_delay_ms_whole_run_p99"] = 80.0
    html = tables.crossing_points(points)
    rows = [re.findall(r">([^<]*)</t[hd]>", row) for row in body_rows(html)]
    heads = re.findall(r"<span>([^<]*)</span>", html)
    assert [row[:2] for row in rows] == [[a, r] for a in ("none", "always-v2", "dynamic-v2-t4") for r in "01"]
    first = dict(zip(heads, rows[0], strict=True))
    assert (first["Status"], first["Accept length"], first["Flags"]) == ("finished", "–", "late client")
    dynamic = dict(zip(heads, rows[4], strict=True))
    of_arm = points[points["label"] == "dynamic-v2-t4"].iloc[0]
    assert dynamic["Output"] == f"{of_arm['output_tok_s_load']:,.0f}"
    assert dynamic["ITL"] == f"{of_arm['itl_ms_whole_run_p99']:.2f}"
    assert dynamic["Switches"] == str(of_arm["switches_whole_run"]) != "0"
    assert dynamic["Speculated"] == f"{of_arm['speculated_share_whole_run']:.1%}"
    assert [row[2] for row in rows].count("missing") == 1
