"""Axes: concurrency on a base-2 logarithmic axis with explicit ticks; ranges that no wide interval can blow up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from specswitch.plots.grid import Series

CONCURRENCY_TITLE = "concurrency C (requests in flight)"


def concurrency_axis(concurrencies: Sequence[int], title: str | None = CONCURRENCY_TITLE) -> dict[str, Any]:
    """A numeric log axis whose ticks are the measured concurrencies. Plotly wants its range in log10."""
    low, high = min(concurrencies), max(concurrencies)
    pad = math.log10(2) / 3
    return {
        "type": "log",
        "tickmode": "array",
        "tickvals": list(concurrencies),
        "ticktext": [str(c) for c in concurrencies],
        "range": [math.log10(low) - pad, math.log10(high) + pad],
        "title": {"text": title},
        "unifiedhovertitle": {"text": "C = %{x}"},
    }


def log_axis(series: Iterable[Series], title: str | None) -> dict[str, Any]:
    """A log axis with ticks at 1, 2, 5 x 10^n that shows every mean; a bar may run out of the picture."""
    low, high = _span(series, reach=1.6)
    low, high = low / 1.12, high * 1.12
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickmode": "array",
        "tickvals": (ticks := ticks_125(low, high)),
        "ticktext": [f"{t:,.10g}" for t in ticks],
        "title": {"text": title},
    }


def linear_axis(
    series: Iterable[Series], title: str | None, include: Sequence[float] = (), **extra: Any
) -> dict[str, Any]:
    """A linear axis that shows every mean and the values in `include`; a bar may run out of the picture."""
    low, high = _span(series, reach=1.5)
    low, high = min([low, *include]), max([high, *include])
    pad = 0.06 * (high - low)
    return {"range": [low - pad, high + pad], "title": {"text": title}, **extra}


def ticks_125(low: float, high: float) -> list[float]:
    """The values 1, 2, 5 x 10^n in [low, high]; with fewer than three, every 1, 1.5, 2, 3, 4, 5, 7 of them."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        ticks = [float(f"{m * 10.0**d:.6g}") for d in decades for m in steps]
        inside = [t for t in ticks if low <= t <= high]
        if len(inside) >= 3:
            break
    return inside


def _span(series: Iterable[Series], reach: float) -> tuple[float, float]:
    """Smallest and largest value to show: all means, and intervals up to a factor `reach` beyond them."""
    points = [p for s in series for p in s.points if p is not None]
    least, most = min(p.mean for p in points), max(p.mean for p in points)
    lows = [p.low for p in points if p.low is not None]
    highs = [p.high for p in points if p.high is not None]
    return max(min([least, *lows]), least / reach), min(max([most, *highs]), most * reach)
