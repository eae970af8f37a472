"""Goodput over concurrency: output of the requests that met the limits, and how many of them did."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.metrics.goodput import Limits
from specswitch.plots.acceptance import with_counts
from specswitch.plots.axes import concurrency_axis, linear_axis
from specswitch.plots.figure import Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid, exists

COLUMN, SHARE = "goodput_tok_s", "goodput_requests"
WORDS = Words(
    "goodput",
    "Goodput over concurrency",
    "Higher is better. Left the output tokens per second that belong to requests within the limits, right the "
    "share of the requests that ended in the steady window and were within them (failed ones were not; the "
    "counts are in the hover label). Marks are means over repeats with 95% t intervals. The limits are",
)


def goodput(table: pd.DataFrame) -> go.Figure | None:
    """Good output tokens per second (left) and share of good requests (right) of every arm.

    None when no limit was asked for, or no point has a steady window.
    """
    limits = limits_text(table)
    if limits is None:
        return None
    grid = Grid(table)
    rates, shares = ([grid.mean(label, column) for label in grid.labels] for column in (COLUMN, SHARE))
    drawn = [s for s in rates if s.drawable]
    if not drawn:
        return None
    figure = make_subplots(
        cols=2, subplot_titles=["Good output", "Requests within the limits"], horizontal_spacing=0.1
    )
    for series in drawn:
        figure.add_trace(line(series, lambda _, p: interval_text(p, 3, " tok/s")), row=1, col=1)
    for series in (s for s in shares if s.drawable):
        hover = with_counts(grid, series.label, SHARE, "good", "ended")
        figure.add_trace(line(series, hover, showlegend=False), row=1, col=2)
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    figure.update_yaxes(linear_axis(drawn, "good output (tokens/s)", include=[0.0]), col=1)
    figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", title_text="good ÷ ended requests", col=2)
    words = replace(WORDS, reading=f"{WORDS.reading} {limits}.")
    return frame(figure, words, 400, gap_notes(rates), margin={"t": 76})


def limits_text(table: pd.DataFrame) -> str | None:
    """The limits that the table's goodput was computed with, in words; None without any."""
    values: list[float | None] = []
    for name in ("ttft_limit_ms", "tpot_limit_ms"):
        known = [v for v in table[name] if exists(v)] if name in table.columns else []
        values.append(float(known[0]) if known else None)
    limits = Limits(*values)
    return limits.text if limits.asked else None
