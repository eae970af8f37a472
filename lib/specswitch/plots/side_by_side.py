"""Marks of several arms moved apart sideways, where equal values would hide one arm behind another."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from specswitch.plots.figure import short

# From the first to the last of the arms that share a place on an axis: well below the way to the next place, which
# is 1 on an axis of whole numbers and a factor of 2 on one of concurrencies.
SPREAD = 0.5


def beside(traces: Sequence[go.Scatter], logarithmic: bool = False) -> list[go.Scatter]:
    """The traces, whose x are whole numbers, moved apart sideways so that no mark or bar lies on another's.

    Behind each of several stands an unseen one at the true x, which the hover label is taken from: it would
    mix neighbouring places otherwise.
    """
    if len(traces) < 2:
        return list(traces)
    found = []
    for i, trace in enumerate(traces):
        shift = SPREAD * (i / (len(traces) - 1) - 0.5)
        hover = go.Scatter(trace).update(
            mode="markers", marker={"opacity": 0}, error_y=None, showlegend=False
        )
        moved = [short(x * 2**shift if logarithmic else x + shift) for x in trace.x]
        found += [trace.update(x=moved, customdata=None, hovertemplate=None, hoverinfo="skip"), hover]
    return found
