"""The figures of a sweep report, in reading order, and which of them a table has data for."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go

from specswitch.plots.acceptance import acceptance
from specswitch.plots.best_dynamic import best_dynamic
from specswitch.plots.goodput import goodput
from specswitch.plots.latency import latency
from specswitch.plots.switching import envelope, speculation
from specswitch.plots.throughput import ratio, throughput

FIGURES: dict[str, Callable[[pd.DataFrame], go.Figure | None]] = {
    "throughput": throughput,
    "ratio": ratio,
    "envelope": envelope,
    "best-dynamic": best_dynamic,
    "speculation": speculation,
    "acceptance": acceptance,
    "latency": latency,
    "goodput": goodput,
}


def drawable(table: pd.DataFrame) -> list[str]:
    """Names of the figures that a report on this table must show."""
    return [name for name, draw in FIGURES.items() if draw(table) is not None]
