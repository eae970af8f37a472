"""The table by arm, concurrency and repeat: order, pairing, gaps, refusals."""

import math

import pandas as pd
import pytest

from plots.tables import STATIC, made_up_table
from specswitch.plots.grid import Grid


def rows(*cells, column="output_tok_s"):
    return pd.DataFrame(
        [{"label": label, "concurrency": c, "repeat": r, column: value} for label, c, r, value in cells]
    )


def test_text_and_unsorted_concurrencies_become_increasing_numbers():
    grid = Grid(rows(*[("none", c, 0, 1.0) for c in ("16", "2", "8", "1", "64")]))
    assert grid.concurrencies == (1, 2, 8, 16, 64)


def test_arms_come_in_reading_order_whatever_the_order_of_rows():
    labels = ["dynamic-v2-t8", "always-v2", "none-sync", "off-v2", "always-v1", "none"]
    grid = Grid(rows(*[(label, 1, 0, 1.0) for label in labels]))
    assert grid.labels == ["none", "none-sync", "always-v1", "always-v2", "off-v2", "dynamic-v2-t8"]


def test_a_concurrency_that_is_no_whole_number_is_named():
    with pytest.raises(ValueError, match=r"concurrency 'many' is no whole number"):
        Grid(rows(("none", "many", 0, 1.0)))


def test_two_rows_in_one_cell_are_refused():
    with pytest.raises(ValueError, match=r"two rows for none at C = 4, repeat 1"):
        Grid(rows(("none", 4, 1, 1.0), ("none", 4, 1, 2.0)))


def test_missing_values_are_left_out_and_never_become_zero():
    grid = Grid(rows(("none", 1, 0, None), ("none", 1, 1, math.nan), ("none", 1, 2, 5.0)))
    assert grid.by_repeat("none", 1, "output_tok_s") == {2: 5.0}


def test_a_ratio_uses_only_the_repeats_that_both_arms_have():
    grid = Grid(
        rows(("none", 1, 0, 10.0), ("none", 1, 2, 20.0), ("always-v2", 1, 2, 30.0), ("always-v2", 1, 3, 1.0))
    )
    (point,) = grid.ratio("always-v2", "none", "output_tok_s").points
    assert (point.mean, point.n, point.low) == (pytest.approx(1.5), 1, None)


def test_a_point_without_output_has_no_ratio():
    grid = Grid(rows(("none", 1, 0, 10.0), ("always-v2", 1, 0, 0.0)))
    assert grid.ratio("always-v2", "none", "output_tok_s").points == (None,)


def test_the_envelope_is_the_better_static_arm_at_each_concurrency():
    cells = [("none", 1, r, 10.0) for r in (0, 1)] + [("none", 8, r, 80.0) for r in (0, 1)]
    cells += [("always-v2", 1, r, 20.0) for r in (0, 1)] + [("always-v2", 8, r, 40.0) for r in (0, 1)]
    cells += [("dynamic-v2-t4", 1, r, 19.0) for r in (0, 1)] + [("dynamic-v2-t4", 8, r, 80.0) for r in (0, 1)]
    series = Grid(rows(*cells)).envelope_ratio("dynamic-v2-t4", "none", "always-v2", "output_tok_s")
    assert [p.mean for p in series.points] == [pytest.approx(0.95), pytest.approx(1.0)]


def test_the_envelope_is_missing_where_one_static_arm_is():
    cells = [("none", 1, 0, 10.0), ("none", 8, 0, 80.0), ("always-v2", 1, 0, 20.0)]
    cells += [("dynamic-v2-t4", c, 0, 20.0) for c in (1, 8)]
    series = Grid(rows(*cells)).envelope_ratio("dynamic-v2-t4", "none", "always-v2", "output_tok_s")
    assert series.gaps == [8]


def test_a_point_that_did_not_finish_leaves_a_gap_and_does_not_count_as_run():
    table = made_up_table(STATIC, (1, 2))
    table.loc[(table["label"] == "none") & (table["concurrency"] == 2), "status"] = "failed"
    series = Grid(table).mean("none", "output_tok_s")
    assert (series.gaps, series.ran) == ([2], frozenset({1}))


def test_counts_are_summed_over_repeats():
    table = made_up_table(("always-v2",), (4,))
    num, den = Grid(table).counts("always-v2", 4, "accept_length")
    assert (num, den) == (table["accept_length_num"].sum(), table["accept_length_den"].sum())
