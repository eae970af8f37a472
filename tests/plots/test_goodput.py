"""The goodput figure: only under limits, zero visible, counts behind a share, limits in its words."""

from __future__ import annotations

import pandas as pd
import pytest

from plots.tables import STATIC, made_up_table
from specswitch.plots.catalogue import FIGURES, drawable
from specswitch.report import findings, tables


def limited_table(ttft_ms: float | None = 200.0, tpot_ms: float | None = None) -> pd.DataFrame:
    """A made-up table in which all is good at C = 1, half at C = 2 and nothing beyond."""
    table = made_up_table(STATIC, (1, 2, 4))
    share = table["concurrency"].map({1: 1.0, 2: 0.5, 4: 0.0})
    ended = table["completed"]
    return table.assign(
        ttft_limit_ms=ttft_ms,
        tpot_limit_ms=tpot_ms,
        goodput_tok_s=table["output_tok_s"] * share,
        goodput_req_s=ended * share / 2,
        goodput_requests=share,
        goodput_requests_num=(ended * share).astype(int),
        goodput_requests_den=ended,
    )


def test_without_a_limit_there_is_no_goodput_to_draw_or_tell() -> None:
    assert "goodput" not in drawable(made_up_table(STATIC))
    assert findings.goodput(made_up_table(STATIC)) == []
    assert ">Goodput<" not in tables.points(made_up_table(STATIC))


def test_zero_goodput_is_shown_as_zero_and_not_as_a_gap() -> None:
    figure = FIGURES["goodput"](limited_table())
    assert figure is not None
    rate, share = [t for t in figure.data if t.name == "none"]
    assert rate.y[2] == share.y[2] == 0
    low, high = figure.layout.yaxis.range
    assert low <= 0 <= high


def test_the_counts_behind_a_share_are_in_its_hover_label() -> None:
    table = limited_table()
    cell = table[(table["label"] == "none") & (table["concurrency"] == 2)]
    _, share = [t for t in FIGURES["goodput"](table).data if t.name == "none"]
    assert (
        f"{cell['goodput_requests_num'].sum()} good / {cell['goodput_requests_den'].sum()} ended"
        in (share.customdata[1])
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ((200.0, None), "The limits are TTFT ≤ 200 ms."),
        ((None, 12.5), "The limits are TPOT ≤ 12.5 ms."),
        ((200.0, 20.0), "The limits are TTFT ≤ 200 ms and TPOT ≤ 20 ms."),
    ],
)
def test_the_words_name_the_limits(limits: tuple[float | None, float | None], words: str) -> None:
    assert words in FIGURES["goodput"](limited_table(*limits)).layout.meta["reading"]


def test_the_finding_names_each_arms_best_place_within_the_limits() -> None:
    table = limited_table()
    table["goodput_tok_s"] = [
        {("none", 1): 300.0, ("none", 2): 250.0}.get((label, c), 0.0)
        for label, c in zip(table["label"], table["concurrency"], strict=True)
    ]
    (sentence,) = findings.goodput(table[table["label"].isin(["none", "always-v2"])])
    assert sentence == "Most output within TTFT ≤ 200 ms: none 300 tokens/s at C = 1; always-v2 nothing."


def test_the_points_table_gains_rate_share_and_counts() -> None:
    html = tables.points(limited_table())
    assert html.count("Goodput") == 2
    assert ">50.0%<" in html
