"""An interval that leaves its axis is named below the figure, and no other."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import pytest

from plots.tables import DYNAMIC, made_up_table
from specswitch.plots.catalogue import FIGURES
from specswitch.plots.cut_off import cut_notes
from specswitch.plots.figure import footnotes


def cut(figure: go.Figure) -> list[str]:
    return [note for note in footnotes(figure) if "run out of the picture" in note]


def wild(table: pd.DataFrame) -> pd.DataFrame:
    """The table with repeats of always-v2 at C = 4 that tell nothing."""
    here = (table["label"] == "always-v2") & (table["concurrency"] == 4)
    factor = table["repeat"].map({0: 0.1, 1: 3.0, 2: 1.0}).where(here, 1.0)
    return table.assign(output_tok_s=table["output_tok_s"] * factor)


@pytest.mark.parametrize(("name", "arm"), [("throughput", "always-v2"), ("ratio", "always-v2 / none")])
def test_the_arm_and_the_load_of_a_cut_interval_are_named(name: str, arm: str) -> None:
    table = made_up_table(DYNAMIC)
    assert cut(FIGURES[name](table)) == []
    (note,) = cut(FIGURES[name](wild(table)))
    assert note.endswith(f"beyond its edge: {arm} at C = 4.")


@pytest.mark.parametrize(
    ("axis", "told"), [({"range": [0, 3]}, True), ({"range": [0, 9]}, False), ({}, False)]
)
def test_only_an_axis_with_a_range_cuts(axis: dict[str, object], told: bool) -> None:
    bars = {"type": "data", "array": [4.0, None], "arrayminus": [0.5, None]}
    figure = go.Figure(go.Scatter(x=[1.25, 2.25], y=[1.0, 2.0], error_y=bars, name="an arm"))
    figure.update_yaxes(axis)
    notes = cut_notes(figure, "step")
    assert bool(notes) is told
    assert not notes or notes[0].endswith(": an arm at step 1.")


def test_the_low_end_below_zero_leaves_a_logarithmic_axis() -> None:
    bars = {"type": "data", "array": [1.0], "arrayminus": [2.0]}
    figure = go.Figure(go.Scatter(x=[8], y=[1.0], error_y=bars, name="an arm"))
    figure.update_yaxes(type="log", range=[-1, 1])
    assert len(cut_notes(figure, "C =")) == 1
