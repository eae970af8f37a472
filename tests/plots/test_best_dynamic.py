"""Dynamic arms against the best of their path: what is divided by what, on which repeats, and what is no comparison."""

import pytest

from plots.tables import made_up_table
from report.test_findings import table_of
from specswitch.metrics.intervals import paired_ratio
from specswitch.plots.best_dynamic import best_dynamic, bests, rivals
from specswitch.plots.figure import footnotes
from specswitch.plots.grid import Grid

T4, T8, T16 = (f"dynamic-v2-t{t}" for t in (4, 8, 16))
TABLE = table_of(
    dynamic_v2_t4={1: [150, 152, 149], 8: [700, 706, 698]},
    dynamic_v2_t8={1: [149, 153, 148], 8: [800, 808, 803]},
)


def test_the_best_arm_is_at_1_and_the_others_are_paired_with_it_by_repeat():
    figure = best_dynamic(TABLE)
    t4, t8 = figure.data
    assert (t4.name, t8.name) == (T4, T8)
    assert t8.y[1] == 1.0
    assert t8.error_y.array[1] == 0.0
    expected = paired_ratio([700, 706, 698], [800, 808, 803])
    assert t4.y[1] == pytest.approx(expected.mean, rel=1e-5)
    assert t4.error_y.arrayminus[1] == pytest.approx(expected.mean - expected.low, rel=1e-4)
    assert max(*t4.y, *t8.y) == 1.0


def test_paths_are_not_mixed_and_one_arm_alone_has_nobody_to_beat():
    labels = ("none", "always-v2", "dynamic-v1-t4", "dynamic-v1-t8", "dynamic-v2-t4")
    assert rivals(Grid(made_up_table(labels))) == {"v1": ["dynamic-v1-t4", "dynamic-v1-t8"]}
    assert best_dynamic(made_up_table(("none", "always-v2", T4))) is None


def test_without_any_static_arm_there_is_a_comparison():
    assert {t.name for t in best_dynamic(made_up_table((T4, T8, T16))).data} == {T4, T8, T16}


def test_the_best_is_picked_on_the_repeats_that_all_have():
    # t8 looks faster only for its one repeat in a fast minute; side by side with the others it is slower.
    uneven = table_of(
        dynamic_v2_t4={1: [100, 300, 100]}, dynamic_v2_t8={1: [90, 290]}, dynamic_v2_t16={1: [95, 280, 95]}
    )
    (best,) = bests(Grid(uneven), [T4, T8, T16])
    assert best.label == T4
    assert (best.others[T8].n, best.others[T16].n) == (2, 3)


def test_an_arm_without_a_point_is_left_out_there_and_named():
    holed = made_up_table((T4, T8, T16), (1, 8), drop=((T8, 8),))
    best = bests(Grid(holed), [T4, T8, T16])
    assert [b.others.get(T8, "best") is None for b in best] == [False, True]
    assert f"Missing, shown as gaps: {T8} at C = 8." in footnotes(best_dynamic(holed))


def test_where_only_one_arm_is_left_there_is_no_best():
    holed = made_up_table((T4, T8), (1, 8), drop=((T8, 8),))
    assert [b.concurrency for b in bests(Grid(holed), [T4, T8])] == [1]


def test_an_arm_without_output_is_not_the_best_and_not_divided():
    silent = table_of(dynamic_v2_t4={1: [0, 0]}, dynamic_v2_t8={1: [10, 11]}, dynamic_v2_t16={1: [9, 10]})
    (best,) = bests(Grid(silent), [T4, T8, T16])
    assert (best.label, best.others[T4]) == (T8, None)
