"""What the switch does: dynamic arms against the envelope, how much was speculated, how often they switched."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.plots import theme
from specswitch.plots.acceptance import with_counts
from specswitch.plots.axes import concurrency_axis, linear_axis
from specswitch.plots.figure import TIMES, Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid, Series
from specswitch.plots.side_by_side import beside
from specswitch.plots.throughput import COLUMN, baseline_of

ENVELOPE = Words(
    "envelope",
    "Dynamic speculation against the envelope",
    "The envelope is the better of never and always speculating at the same concurrency (for v1 the never "
    "arm without overlap scheduling). The line at 1 is the promise: on it or above, the switch costs nothing. "
    "Geometric means of per-repeat ratios with 95% t intervals.",
)
SPECULATION = Words(
    "speculation",
    "How much was speculated",
    "Share of decode steps and of output tokens that came from speculative steps, and how often the mode "
    "changed within the steady window. Means over repeats with 95% t intervals. Several arms stand side by side at "
    "their concurrency.",
)


def envelope_series(grid: Grid) -> list[Series]:
    """Envelope ratio of every dynamic arm: itself / the better of its `none` and its `always`."""
    found = []
    for label in grid.labels:
        if not label.startswith("dynamic-"):
            continue
        none, always = baseline_of(label, grid.labels), f"always-{label.split('-')[1]}"
        if none is not None and always in grid.labels:
            found.append(grid.envelope_ratio(label, none, always, COLUMN))
    return found


def envelope_needs(grid: Grid) -> list[str]:
    """For dynamic arms whose envelope cannot be had: which arms the run lacks for it, a sentence per path."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for label in grid.labels:
        if label.startswith("dynamic-"):
            path = label.split("-")[1]
            never = [] if baseline_of(label, grid.labels) else ["none-sync" if path == "v1" else "none"]
            always = [] if f"always-{path}" in grid.labels else [f"always-{path}"]
            if never or always:
                lacking.setdefault((*never, *always), []).append(label)
    return [
        f"For the envelope of {', '.join(labels)}, add {' and '.join(arms)} to the arms."
        for arms, labels in lacking.items()
    ]


def envelope(table: pd.DataFrame) -> go.Figure | None:
    """Dynamic / max(none, always) at the same concurrency, paired by repeat. None without such arms."""
    grid = Grid(table)
    lines = envelope_series(grid)
    drawn = [s for s in lines if s.drawable]
    if not drawn:
        return None
    figure = go.Figure([line(s, lambda _, p: interval_text(p, 3, TIMES)) for s in drawn])
    figure.add_hline(y=1, line={"color": theme.RULE, "width": 1.25}, layer="below")
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    figure.update_yaxes(linear_axis(drawn, "throughput ÷ better of never and always", include=[0.9, 1.05]))
    notes = [*gap_notes(lines, "one of the three has no value"), *envelope_needs(grid)]
    return frame(figure, ENVELOPE, 400, notes)


def speculation(table: pd.DataFrame) -> go.Figure | None:
    """Share of steps and of tokens made by speculative steps, and mode switches per point.

    Dynamic and off arms only (the others have 0 or 1 by definition). None without such arms.
    """
    grid = Grid(table)
    switchable = [label for label in grid.labels if label.split("-")[0] in ("dynamic", "off")]
    panels = (
        ("speculated_share_steps", "Share of steps", "speculative", "steps"),
        ("speculated_share_tokens", "Share of tokens", "speculative", "tokens"),
        ("switches", "Mode switches per point", "", ""),
    )
    cells = [[grid.mean(label, panel[0]) for label in switchable] for panel in panels]
    if not any(s.drawable for cell in cells for s in cell):
        return None
    figure = make_subplots(cols=3, subplot_titles=[p[1] for p in panels], horizontal_spacing=0.075)
    for col, ((column, _, num, den), cell) in enumerate(zip(panels, cells, strict=True), start=1):
        lines = [
            line(s, with_counts(grid, s.label, column, num, den), showlegend=col == 1)
            for s in cell
            if s.drawable
        ]
        for trace in beside(lines, logarithmic=True):
            figure.add_trace(trace, row=1, col=col)
    figure.update_xaxes(concurrency_axis(grid.concurrencies, title="concurrency C"))
    figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", col=1)
    figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", col=2)
    most = max((max(p.mean, p.high or 0) for s in cells[2] for p in s.points if p is not None), default=0.0)
    most = max(most, 1.0)
    figure.update_yaxes(range=[-0.03 * most, 1.05 * most], col=3)  # a bar may go below 0, switches cannot
    return frame(figure, SPECULATION, 380, gap_notes(cells[0]), margin={"t": 76})
