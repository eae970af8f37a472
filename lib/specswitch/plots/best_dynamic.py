"""Which dynamic arm is best at which load: the arms of one path, usually thresholds, against the best of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import pandas as pd
import plotly.graph_objects as go

from specswitch.metrics.intervals import Interval
from specswitch.plots import theme
from specswitch.plots.axes import concurrency_axis, linear_axis
from specswitch.plots.figure import TIMES, Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid, Series
from specswitch.plots.throughput import COLUMN

WORDS = Words(
    "best-dynamic",
    "Dynamic arms against the best of them",
    "At each concurrency the dynamic arm of a path with the most output tokens per second is at 1, and the others "
    "are divided by it, repeat by repeat (geometric mean, 95% t interval). An interval that reaches 1 means: not "
    "distinguishable from the best. The best is picked from these very repeats, so it looks a little better than "
    "it is.",
)


@dataclass(frozen=True, slots=True)
class Best:
    """The best dynamic arm of a path at one concurrency, and every other one over it, None without a pair."""

    concurrency: int
    label: str
    others: dict[str, Interval | None]


def rivals(grid: Grid) -> dict[str, list[str]]:
    """Path -> its dynamic arms in reading order, for paths with two or more."""
    found: dict[str, list[str]] = {}
    for label in grid.labels:
        if label.startswith("dynamic-"):
            found.setdefault(label.split("-")[1], []).append(label)
    return {path: labels for path, labels in found.items() if len(labels) > 1}


def bests(grid: Grid, labels: Sequence[str]) -> list[Best]:
    """The best of these arms at every concurrency where two of them have output in the same repeats.

    Best: the highest geometric mean over the repeats that all arms with a value there have.
    """
    found = []
    for at, c in enumerate(grid.concurrencies):
        there = [label for label in labels if grid.by_repeat(label, c, COLUMN)]
        values = dict(zip(there, grid.paired(there, c, COLUMN), strict=True)) if len(there) > 1 else {}
        if not values or not values[there[0]]:
            continue
        best = max(values, key=lambda label: _mean_log(values[label]))
        others = {o: grid.ratio(o, best, COLUMN).points[at] for o in labels if o != best}
        if any(ratio is not None for ratio in others.values()):
            found.append(Best(c, best, others))
    return found


def to_best(grid: Grid, labels: Sequence[str]) -> list[Series]:
    """One series per arm: its ratio to the best of them, exactly 1 where it is the best."""
    by_concurrency = {best.concurrency: best for best in bests(grid, labels)}

    def ratio(label: str, c: int) -> Interval | None:
        best = by_concurrency.get(c)
        if best is None or best.label != label:
            return None if best is None else best.others[label]
        repeats = len(grid.by_repeat(label, c, COLUMN))
        end = None if repeats < 2 else 1.0
        return Interval(1.0, end, end, repeats)

    return [grid.series(label, lambda c, label=label: ratio(label, c)) for label in labels]  # type: ignore[misc]


def best_dynamic(table: pd.DataFrame) -> go.Figure | None:
    """Throughput of every dynamic arm ÷ that of the best one of its path. None without two that can be paired."""
    grid = Grid(table)
    lines = [s for labels in rivals(grid).values() for s in to_best(grid, labels)]
    drawn = [s for s in lines if s.drawable]
    if not drawn:
        return None
    figure = go.Figure([line(s, lambda _, p: interval_text(p, 3, TIMES)) for s in drawn])
    figure.add_hline(y=1, line={"color": theme.RULE, "width": 1.25}, layer="below")
    figure.update_xaxes(concurrency_axis(grid.concurrencies))
    figure.update_yaxes(linear_axis(drawn, "throughput ÷ best dynamic arm", include=[0.9, 1.05]))
    return frame(
        figure, WORDS, 400, gap_notes(lines, "no other dynamic arm to compare with in the same repeat")
    )


def _mean_log(values: Sequence[float]) -> float:
    """Mean of the logarithms; the least there is where a value is 0."""
    return fmean(map(math.log, values)) if min(values) > 0 else -math.inf
