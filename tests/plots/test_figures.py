"""What the figures say: numbers, intervals, gaps, counts on hover, sizes. Made-up tables, no server."""

import itertools
import json

import pandas as pd
import pytest

from plots.tables import CONCURRENCIES, DYNAMIC, STATIC, limited, made_up_table
from specswitch.metrics.intervals import mean_interval, paired_ratio
from specswitch.plots.catalogue import FIGURES, drawable
from specswitch.plots.figure import HOLLOW, footnotes, number

BUNDLED = {"bar", "scatter", "heatmap"}


def trace(figure, name):
    (found,) = [t for t in figure.data if t.name == name]
    return found


def all_figures(table):
    return {name: draw(table) for name, draw in FIGURES.items()}


def test_throughput_is_the_mean_over_repeats_with_its_t_interval():
    table = made_up_table(STATIC)
    values = table[(table["label"] == "always-v1") & (table["concurrency"] == 4)]["output_tok_s"]
    expected = mean_interval(list(values))
    line = trace(FIGURES["throughput"](table), "always-v1")
    at = line.x.index(4)
    assert line.y[at] == pytest.approx(expected.mean, rel=1e-5)
    assert line.error_y.array[at] == pytest.approx(expected.high - expected.mean, rel=1e-5)
    assert line.error_y.arrayminus[at] == pytest.approx(expected.mean - expected.low, rel=1e-5)


def test_ratio_pairs_repeats_and_compares_v1_with_both_baselines():
    table = made_up_table(STATIC)
    figure = FIGURES["ratio"](table)
    assert [t.name for t in figure.data] == ["always-v1 / none-sync", "always-v1 / none", "always-v2 / none"]

    def values(label):
        cell = table[(table["label"] == label) & (table["concurrency"] == 16)]
        return list(cell.sort_values("repeat")["output_tok_s"])

    expected = paired_ratio(values("always-v1"), values("none-sync"))
    line = figure.data[0]
    assert line.y[line.x.index(16)] == pytest.approx(expected.mean, rel=1e-5)


def test_ratio_without_none_sync_says_that_v1_has_an_unfair_partner():
    figure = FIGURES["ratio"](made_up_table(("none", "always-v1", "always-v2")))
    assert [t.name for t in figure.data] == ["always-v1 / none", "always-v2 / none"]
    assert any("no none-sync arm" in note for note in footnotes(figure))


def test_one_repeat_is_drawn_hollow_and_explained_in_one_short_sentence():
    figure = FIGURES["throughput"](made_up_table(STATIC, repeats=1))
    line = trace(figure, "none")
    assert set(line.marker.color) == {"#ffffff"}
    assert set(line.error_y.array) == {None}
    assert footnotes(figure) == [HOLLOW]
    assert "no interval" in line.customdata[0]


def test_c16_text_concurrencies_and_a_missing_point_give_ordered_lines_with_a_named_gap():
    table = made_up_table(("none", "always-v2"), (16, 2, 8, 1, 64), drop=(("always-v2", 8),))
    table["concurrency"] = table["concurrency"].astype(str)
    for name, figure in all_figures(table).items():
        if figure is None:
            continue
        axes = [axis for axis in figure.select_xaxes()]
        assert axes
        assert {axis.type for axis in axes} == {"log"}
        assert all(axis.tickvals == (1, 2, 8, 16, 64) for axis in axes)
        for line in figure.data:
            assert all(a < b for a, b in itertools.pairwise(line.x))
            assert line.connectgaps is False
            if "always-v2" in line.name:
                assert line.x == (1, 2, 8, 16, 64)
                assert [y is None for y in line.y] == [False, False, True, False, False], name
        assert any("always-v2" in n and n.endswith("at C = 8.") for n in footnotes(figure)), name


def test_an_arm_without_any_finished_point_is_named():
    table = made_up_table(STATIC, (1, 2))
    table.loc[table["label"] == "always-v1", "status"] = "failed"
    notes = footnotes(FIGURES["throughput"](table))
    assert notes == ["Missing, shown as gaps: always-v1 at C = 1, 2."]


def test_acceptance_shows_speculating_arms_only_with_counts_on_hover():
    table = made_up_table(STATIC)
    figure = FIGURES["acceptance"](table)
    assert {t.name for t in figure.data} == {"always-v1", "always-v2"}
    cell = table[(table["label"] == "always-v2") & (table["concurrency"] == 8)]
    length, rate = [t for t in figure.data if t.name == "always-v2"]
    at = length.x.index(8)
    assert f"{cell['accept_length_num'].sum():,.0f} tokens" in length.customdata[at]
    assert f"{cell['accept_length_den'].sum():,.0f} request-steps" in length.customdata[at]
    assert f"{cell['accept_rate_num'].sum():,.0f} accepted" in rate.customdata[at]
    assert f"{cell['accept_rate_den'].sum():,.0f} proposed" in rate.customdata[at]


def test_acceptance_is_undefined_not_zero_where_nothing_was_verified():
    figure = FIGURES["acceptance"](made_up_table(DYNAMIC))
    line = next(t for t in figure.data if t.name == "dynamic-v2-t8-lazy")
    assert [y is None for y in line.y] == [c > 8 for c in CONCURRENCIES]
    assert any("no step verified drafts" in note for note in footnotes(figure))


def test_latency_has_eight_panels_and_one_legend_entry_per_arm():
    figure = FIGURES["latency"](made_up_table(STATIC))
    assert len(list(figure.select_yaxes())) == 8
    shown = [t.name for t in figure.data if t.showlegend is not False]
    assert sorted(shown) == sorted(STATIC)


def test_every_mean_lies_inside_the_picture_even_with_two_noisy_repeats():
    table = made_up_table(DYNAMIC, repeats=2)
    table.loc[(table["concurrency"] == 2) & (table["repeat"] == 1), "output_tok_s"] *= 3
    for name in ("throughput", "ratio", "envelope"):
        figure = FIGURES[name](table)
        axis = figure.layout.yaxis
        low, high = (10**v for v in axis.range) if axis.type == "log" else axis.range
        for line in figure.data:
            assert all(low <= y <= high for y in line.y if y is not None), name


def test_a_point_without_any_output_is_named_instead_of_breaking_a_log_axis():
    table = made_up_table(("none", "always-v2"), (1, 8))
    table.loc[(table["label"] == "none") & (table["concurrency"] == 1), "output_tok_s"] = 0.0
    figure = FIGURES["throughput"](table)
    assert trace(figure, "none").y[0] is None
    assert "Zero, which a logarithmic axis cannot show: none at C = 1." in footnotes(figure)
    table["output_tok_s"] = 0.0
    assert FIGURES["throughput"](table) is None


def test_a_latency_that_is_missing_in_one_panel_only_is_named_with_its_metric():
    table = made_up_table(("none",), (1, 8))
    table.loc[table["concurrency"] == 8, ["e2e_ms_mean", "e2e_ms_p99"]] = None
    (note,) = footnotes(FIGURES["latency"](table))
    assert note == "E2E: Finished, but without a value (no such event in a steady window): none at C = 8."


def test_switching_figures_appear_only_with_switching_arms():
    assert drawable(made_up_table(STATIC)) == ["throughput", "ratio", "acceptance", "latency"]
    assert drawable(made_up_table(DYNAMIC)) == [name for name in FIGURES if name != "goodput"]


def test_an_empty_table_draws_nothing():
    assert drawable(pd.DataFrame(columns=["label", "concurrency", "repeat"])) == []


def test_c14_figures_hold_aggregates_not_raw_traces():
    labels = tuple(f"dynamic-v{p}-t{t}" for p in (1, 2) for t in (1, 2, 4, 8, 16, 32, 64, 128))
    table = made_up_table(labels, (1, 2, 4, 8, 16, 32, 64, 128, 256), repeats=20)
    for figure in all_figures(table).values():
        if figure is not None:
            assert max(len(line.x) for line in figure.data) <= 9


def test_every_figure_has_words_and_only_bundled_trace_types():
    for name, figure in all_figures(limited(made_up_table(DYNAMIC))).items():
        meta = figure.layout.meta
        assert meta["name"] == name
        assert meta["title"]
        assert len(meta["reading"]) > 60
        assert {t.type for t in figure.data} <= BUNDLED
        assert "NaN" not in json.dumps(json.loads(figure.to_json()))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.56, "1,235"),
        (12.345, "12.3"),
        (1.0, "1.00"),
        (0.01234, "0.0123"),
        (100, "100"),
        (0, "0.00"),
        (0.00001, "0.000"),
    ],
)
def test_numbers_are_written_plainly(value, text):
    assert number(value) == text


def test_an_envelope_that_only_some_arms_have_names_what_the_others_lack():
    labels = ("none", "always-v2", "dynamic-v1-t8", "dynamic-v2-t8")
    notes = footnotes(FIGURES["envelope"](made_up_table(labels)))
    assert "For the envelope of dynamic-v1-t8, add always-v1 to the arms." in notes


def test_no_axis_of_counts_shows_what_cannot_be():
    table = made_up_table(DYNAMIC, repeats=2)
    table.loc[(table["arm"] == "dynamic") & (table["repeat"] == 1), "switches"] = 0
    figure = FIGURES["speculation"](table)
    low, high = figure.layout.yaxis3.range
    assert -0.05 * high < low < 0
    assert all(y <= high for t in figure.data if t.yaxis == "y3" for y in t.y if y is not None)


def test_arms_that_speculated_alike_do_not_hide_each_other():
    figure = FIGURES["speculation"](made_up_table(DYNAMIC))
    drawn = [t for t in figure.data if t.xaxis == "x" and t.marker.opacity != 0]
    hovered = [t for t in figure.data if t.xaxis == "x" and t.hoverinfo != "skip"]
    assert [t.name for t in drawn] == [t.name for t in hovered]
    for i, c in enumerate(CONCURRENCIES):
        places = [t.x[i] for t in drawn]
        assert len(set(places)) == len(drawn) > 1
        assert all(c / 2**0.5 < x < c * 2**0.5 for x in places)
        assert {t.x[i] for t in hovered} == {c}


def test_a_cut_interval_of_a_mark_moved_sideways_is_named_at_its_concurrency():
    table = made_up_table(DYNAMIC)
    here = (table["label"] == "dynamic-v2-t16-lazy") & (table["concurrency"] == 32)
    table.loc[here, "switches"] = [0, 0, 9]
    (note,) = [n for n in footnotes(FIGURES["speculation"](table)) if "run out of the picture" in n]
    assert note.endswith("dynamic-v2-t16-lazy at C = 32.")
