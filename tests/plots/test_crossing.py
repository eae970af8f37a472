"""The crossing figures: what is divided by what, intervals, what is absent. Made-up tables, no server."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest

from specswitch.metrics.intervals import paired_ratio
from specswitch.plots import theme
from specswitch.plots.crossing import CROSSING_FIGURES, drawable
from specswitch.plots.figure import HOLLOW, footnotes
from specswitch.results.crossing import CHANGE_COLUMNS, RATE_COLUMNS, RECOVERY_COLUMNS, STEP_COLUMNS, Crossing

ARM = "dynamic-v2-t4"


def made_up(repeats: int = 2) -> Crossing:
    steps = [
        (0.01 * i, batch, *(("speculative", batch, 2 * batch) if batch <= 4 else ("plain", 0, batch)))
        for i in range(400)
        for batch in [2 if i % 200 < 100 else 12]
    ]
    rates = [
        (label, r, t, speed + r)
        for label, speed in (("none", 100), (ARM, 120))
        for r in range(repeats)
        for t in (0.5, 1.5)
    ]
    recovery = [
        (ARM, r, step, 150 + 10 * step + r, 100, 400, 200) for r in range(repeats) for step in (1, 2, 3)
    ]
    changes = [
        (ARM, r, to, offset, 1.0 + 0.1 * r + (offset == 0))
        for r in range(repeats)
        for to in ("plain", "speculative")
        for offset in range(-2, 2)
    ]
    return Crossing(
        points=pd.DataFrame({"label": ["none", ARM], "repeat": [0, 0]}),
        target=[(0.0, 2), (1.0, 12), (2.0, 2), (4.0, 0)],
        shown=ARM,
        threshold=4,
        steps=pd.DataFrame(steps, columns=list(STEP_COLUMNS)),
        rates=pd.DataFrame(rates, columns=list(RATE_COLUMNS)),
        recovery=pd.DataFrame(recovery, columns=list(RECOVERY_COLUMNS)),
        changes=pd.DataFrame(changes, columns=list(CHANGE_COLUMNS)),
    )


def empty() -> Crossing:
    seen = made_up()
    tables = {n: getattr(seen, n).iloc[:0] for n in ("steps", "rates", "recovery", "changes")}
    return replace(seen, shown=None, **tables)


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def test_all_figures_are_drawn_and_carry_their_words():
    seen = made_up()
    assert drawable(seen) == list(CROSSING_FIGURES) == ["timeline", "rates", "recovery", "switch-cost"]
    for name, draw in CROSSING_FIGURES.items():
        meta = draw(seen).layout.meta
        assert meta["name"] == name
        assert len(meta["reading"]) > 80


def test_nothing_is_drawn_from_nothing():
    assert drawable(empty()) == []


def test_recovery_is_the_paired_ratio_to_always_on():
    line = CROSSING_FIGURES["recovery"](made_up()).data[0]
    assert line.x == (1, 2, 3)
    expected = paired_ratio([1.6, 1.61], [2.0, 2.0])
    assert line.y[0] == pytest.approx(expected.mean, rel=1e-5)
    assert line.error_y.array[0] == pytest.approx(expected.high - expected.mean, rel=1e-4)


def test_recovery_without_always_is_absent():
    seen = made_up()
    alone = seen.recovery.assign(always_num=None, always_den=None).astype({"always_den": "Int64"})
    assert CROSSING_FIGURES["recovery"](replace(seen, recovery=alone)) is None


@pytest.mark.parametrize("name", ["rates", "recovery", "switch-cost"])
def test_one_repeat_has_hollow_markers_and_says_so(name):
    figure = CROSSING_FIGURES[name](made_up(repeats=1))
    assert set(trace(figure, ARM).marker.color) == {theme.PAPER}
    assert footnotes(figure) == [HOLLOW]


@pytest.mark.parametrize("name", ["rates", "recovery", "switch-cost"])
def test_several_repeats_have_filled_markers_and_no_word_on_hollow_ones(name):
    figure = CROSSING_FIGURES[name](made_up())
    assert set(trace(figure, ARM).marker.color) == {theme.arm_style(ARM).colour}
    assert footnotes(figure) == []


def test_switch_cost_has_a_panel_per_direction_with_step_0_in_it():
    figure = CROSSING_FIGURES["switch-cost"](made_up())
    assert [a.text for a in figure.layout.annotations] == ["to plain steps", "back to speculative steps"]
    assert {t.x for t in figure.data} == {(-2, -1, 0, 1)}
    assert figure.data[0].y == pytest.approx((1.05, 1.05, 2.05, 1.05))
    assert [t.showlegend for t in figure.data] == [True, False]


def test_rates_show_the_mean_of_the_repeats_with_the_interval_on_hover():
    figure = CROSSING_FIGURES["rates"](made_up())
    line = trace(figure, "none")
    assert line.y == pytest.approx((100.5, 100.5))
    assert "n = 2" in line.customdata[0]
    assert trace(figure, "slots wanted").y == (2, 12, 2, 0)
    assert trace(figure, "slots wanted").line.shape == "hv"


def test_an_open_loop_has_no_slots_to_show():
    seen = replace(made_up(), target=[])
    for name in ("rates", "timeline"):
        figure = CROSSING_FIGURES[name](seen)
        assert "slots wanted" not in {t.name for t in figure.data}
    assert "since the load began" in CROSSING_FIGURES["timeline"](seen).layout.xaxis3.title.text


@pytest.mark.parametrize("name", ["timeline", "rates"])
def test_what_the_load_wanted_looks_like_no_other_line(name):
    lines = [t for t in CROSSING_FIGURES[name](made_up()).data if t.type == "scatter"]
    looks = {t.name: (t.line.color, t.line.dash or "solid") for t in lines}
    wanted = looks.pop("slots wanted")
    assert len(looks) >= 2
    assert wanted[1] == "dot"
    assert "dot" not in {dash for _, dash in looks.values()}


def test_the_timeline_names_its_arm():
    notes = footnotes(CROSSING_FIGURES["timeline"](made_up()))
    assert notes == [f"The arm is {ARM}, in its first finished repeat.", "Dashed line: threshold 4."]


@pytest.mark.parametrize("name", CROSSING_FIGURES)
def test_every_colour_has_a_dark_twin_and_the_figure_is_small(name):
    text = CROSSING_FIGURES[name](made_up()).to_json()
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\([^)]*\)", text)) <= set(theme.DARK)
    assert len(text) < 60_000


SYNC_ARMS = tuple(f"dynamic-v2-t4-{sync}" for sync in ("lazy", "eager", "stale"))


def three_sync_rules() -> Crossing:
    """The made-up run with its dynamic arm under three sync rules, all with the same numbers."""
    seen = made_up()
    tables = {
        name: pd.concat(
            [getattr(seen, name).replace({"label": {ARM: arm}}) for arm in SYNC_ARMS]
        ).drop_duplicates()
        for name in ("rates", "recovery", "changes")
    }
    return replace(seen, **tables)


def seen_traces(figure):
    return [t for t in figure.data if t.name in SYNC_ARMS and t.marker.opacity != 0]


def test_an_arm_has_one_colour_symbol_and_dash_in_all_figures_and_no_other_arm_has_them():
    looks = {name: set() for name in SYNC_ARMS}
    for name in ("rates", "recovery", "switch-cost"):
        for trace in seen_traces(CROSSING_FIGURES[name](three_sync_rules())):
            assert "lines+markers" in trace.mode
            looks[trace.name].add((trace.line.color, trace.marker.symbol, trace.line.dash))
    assert all(len(look) == 1 for look in looks.values())
    for part in range(3):
        assert len({next(iter(look))[part] for look in looks.values()}) == 3


@pytest.mark.parametrize("name", ["recovery", "switch-cost"])
def test_marks_of_equal_value_do_not_lie_on_each_other(name):
    figure = CROSSING_FIGURES[name](three_sync_rules())
    drawn = seen_traces(figure)
    places = [(t.xaxis, x) for t in drawn for x in t.x]
    assert len(set(places)) == len(places) == len(drawn) * len(drawn[0].x)
    assert all(abs(x - round(x)) < 0.5 for _, x in places)


@pytest.mark.parametrize("name", ["recovery", "switch-cost"])
def test_the_label_of_a_step_tells_every_arm_at_that_step(name):
    figure = CROSSING_FIGURES[name](three_sync_rules())
    hovered = [t for t in figure.data if t.hoverinfo != "skip"]
    assert {t.name for t in hovered} == set(SYNC_ARMS)
    assert all(x == round(x) for t in hovered for x in t.x)
    assert all(len(t.customdata) == len(t.x) for t in hovered)
    assert {t.legendgroup for t in hovered} == set(SYNC_ARMS)
