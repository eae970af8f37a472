"""Output throughput over concurrency, and the same as a ratio to the arms that never speculate."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from specswitch.plots import theme
from specswitch.plots.axes import concurrency_axis, linear_axis, log_axis
from specswitch.plots.figure import TIMES, Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid, Series

COLUMN = "output_tok_s"
THROUGHPUT = Words(
    "throughput",
    "Output throughput over concurrency",
    "Higher is better. Each mark is the mean over repeats of the output tokens per second in the steady "
    "window, with its 95% t interval. Both axes are logarithmic: the same vertical distance is the same "
    "ratio everywhere.",
)
RATIO = Words(
    "ratio",
    "Speed-up over serving without speculation",
    "Above the line at 1 the arm makes more tokens per second than the arm without speculation, below it "
    "fewer. Ratios are taken repeat by repeat (geometric mean, 95% t interval); an interval that crosses "
    "1 means: not distinguishable. v1 cannot overlap scheduling with the GPU's work, so its fair partner is "
    "none-sync; dotted lines show v1 against default none, which is what a user gives up by choosing it.",
)


def throughput(table: pd.DataFrame) -> go.Figure | None:
    """Output tokens per second of every arm, mean with 95% t interval over repeats, both axes logarithmic.

    None when the table has no such number.
    """
    grid = Grid(table)
    lines = [grid.mean(label, COLUMN) for label in grid.labels]
    drawn = [s for s in (s.positive() for s in lines) if s.drawable]
    if not drawn:
        return None
    figure = go.Figure([line(s, lambda _, p: interval_text(p, 3, " tok/s")) for s in drawn])
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    figure.update_yaxes(log_axis(drawn, "output throughput (tokens/s)"))
    return frame(figure, THROUGHPUT, 440, gap_notes(lines, logarithmic=True))


def baseline_of(label: str, labels: list[str]) -> str | None:
    """The fair baseline of an arm: `none-sync` for v1 (which cannot overlap) where it was run, else `none`.

    None for the baselines themselves, and when no baseline was run.
    """
    if label in ("none", "none-sync"):
        return None
    wanted = ["none-sync", "none"] if "v1" in label.split("-") else ["none"]
    return next((name for name in wanted if name in labels), None)


def ratios(grid: Grid) -> list[tuple[Series, str]]:
    """Every ratio line with its baseline: each arm to its fair one, v1 to default `none` besides."""
    found = []
    for label in grid.labels:
        fair = baseline_of(label, grid.labels)
        wanted = [] if fair is None else [fair]
        if fair == "none-sync" and "none" in grid.labels:
            wanted.append("none")
        found += [(grid.ratio(label, baseline, COLUMN), baseline) for baseline in wanted]
    return found


def ratio(table: pd.DataFrame) -> go.Figure | None:
    """Throughput of every speculating arm divided by `none`, paired by repeat. None without a pair."""
    grid = Grid(table)
    lines = ratios(grid)
    drawn = [(s, baseline) for s, baseline in lines if s.drawable]
    if not drawn:
        return None
    figure = go.Figure()
    for series, baseline in drawn:
        second_look = baseline != baseline_of(series.label, grid.labels)
        trace = line(series, lambda _, p: interval_text(p, 3, TIMES))
        if second_look:
            trace.update(line={"dash": "dot", "width": 1.4}, marker={"size": 6})
        figure.add_trace(trace)
    figure.add_hline(y=1, line={"color": theme.RULE, "width": 1.25}, layer="below")
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    figure.update_yaxes(
        linear_axis([s for s, _ in drawn], "throughput ÷ throughput without speculation", include=[1.0])
    )
    notes = gap_notes((s for s, _ in lines), "one of the two has no value")
    if "none-sync" not in grid.labels and any("v1" in label for label in grid.labels):
        notes.append(
            "v1 is compared with default none, whose overlap scheduler v1 cannot use: "
            "this run has no none-sync arm."
        )
    return frame(figure, RATIO, 420, notes)
