"""Intervals that run out of their axes, found in a figure and told in words.

The axes show every mean, not every interval: one wide interval would flatten all the rest. A bar that ends at the
edge of the picture looks like one that ends there in truth, so a footnote names it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import plotly.graph_objects as go


def cut_notes(figure: go.Figure, at: str) -> list[str]:
    """One footnote that names the marks whose interval leaves its axis, if there are any.

    `at`: what a position on the x axis is ("C =", "step"). Only axes with a range count: others show everything.
    """
    cut: dict[str, set[int]] = {}
    for trace in figure.data:
        span = _shown(figure, trace)
        if span is None:
            continue
        for x, low, high in _ends(trace):
            if low < span[0] or high > span[1]:
                cut.setdefault(trace.name, set()).add(_place(figure, trace, x))
    if not cut:
        return []
    named = "; ".join(f"{name} at {at} {', '.join(map(str, sorted(xs)))}" for name, xs in cut.items())
    where = " in one panel or another" if len({trace.yaxis for trace in figure.data}) > 1 else ""
    return [f"Intervals that run out of the picture{where}, and go on beyond its edge: {named}."]


def _shown(figure: go.Figure, trace: go.Scatter) -> tuple[float, float] | None:
    """The ends of a trace's y axis in its own unit, a little slack included; None where plotly chooses them."""
    axis = figure.layout[(trace.yaxis or "y").replace("y", "yaxis", 1)]
    if axis.range is None and axis.matches:
        axis = figure.layout[axis.matches.replace("y", "yaxis", 1)]
    if axis.range is None:
        return None
    low, high = axis.range
    slack = 1e-4 * (high - low)
    low, high = low - slack, high + slack
    return (10**low, 10**high) if axis.type == "log" else (low, high)


def _place(figure: go.Figure, trace: go.Scatter, x: float) -> int:
    """The whole number that a mark belongs to, which may have been moved sideways from it."""
    axis = figure.layout[(trace.xaxis or "x").replace("x", "xaxis", 1)]
    if axis.type == "log" and axis.tickvals:
        return int(min(axis.tickvals, key=lambda tick: abs(math.log(x / tick))))
    return round(x)


def _ends(trace: go.Scatter) -> Iterator[tuple[float, float, float]]:
    """x, lower and upper end of every mark of the trace that has an interval."""
    bars = trace.error_y
    if bars is None or bars.array is None:
        return
    for x, y, up, down in zip(trace.x, trace.y, bars.array, bars.arrayminus, strict=True):
        if y is not None and _is_number(up) and _is_number(down):
            yield x, y - down, y + up


def _is_number(value: float | None) -> bool:
    return value is not None and not math.isnan(value)
