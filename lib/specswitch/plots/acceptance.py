"""Accept length and accept rate over concurrency: verify steps only, with what was divided by what on hover."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.metrics.intervals import Interval
from specswitch.plots.axes import concurrency_axis
from specswitch.plots.figure import Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid

WORDS = Words(
    "acceptance",
    "Acceptance of drafted tokens",
    "Verify steps only; tokens of plain steps are in neither number. Accept length: tokens emitted per "
    "request and verify step, the target's own bonus token included, so 1 means that no draft was accepted. "
    "Accept rate: accepted ÷ proposed draft tokens, without the bonus token. Marks are means over repeats "
    "with 95% t intervals; the counts behind a mark are in its hover label.",
)
# A rate known to so much is known, however small it is.
SMALL = 0.05
# column, panel title, what numerator and denominator count
PANELS = (
    ("accept_length", "Accept length", "tokens", "request-steps"),
    ("accept_rate", "Accept rate", "accepted", "proposed"),
)


def acceptance(table: pd.DataFrame) -> go.Figure | None:
    """Mean accept length (bonus token included) and accept rate with 95% t intervals over repeats.

    The hover label adds the counts summed over repeats. None when no verify step was recorded.
    """
    grid = Grid(table)
    panels = [
        (panel, [s for s in (grid.mean(label, panel[0]) for label in grid.labels) if s.drawable])
        for panel in PANELS
    ]
    if not any(lines for _, lines in panels):
        return None
    figure = make_subplots(cols=2, subplot_titles=[panel[1] for panel in PANELS], horizontal_spacing=0.1)
    for col, ((column, _, num, den), lines) in enumerate(panels, start=1):
        for series in lines:
            trace = line(series, with_counts(grid, series.label, column, num, den), showlegend=col == 1)
            figure.add_trace(trace, row=1, col=col)
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    longest = max((p.high or p.mean for s in panels[0][1] for p in s.points if p), default=2.0)
    figure.update_yaxes(range=[1, max(2.0, 1.06 * longest)], title_text="tokens per verify step", col=1)
    figure.update_yaxes(range=[0, 1], tickformat=".0%", title_text="accepted ÷ proposed drafts", col=2)
    return frame(
        figure,
        WORDS,
        400,
        gap_notes(panels[0][1], "no step verified drafts"),
        margin={"t": 76},
    )


def with_counts(grid: Grid, label: str, column: str, num: str, den: str) -> Callable[[int, Interval], str]:
    """Hover text of a rate: the interval, then the counts that it is made of."""

    def text(concurrency: int, interval: Interval) -> str:
        counts = grid.counts(label, concurrency, column)
        tail = f"; {counts[0]:,} {num} / {counts[1]:,} {den}" if counts else ""
        return f"{interval_text(interval, small=SMALL)}{tail}"

    return text
