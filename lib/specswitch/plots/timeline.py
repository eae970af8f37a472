"""One point seen step by step: running batch, mode, token rate and accept length on one time axis.

Steps are summed up in at most `bins` equal slices of time, so the figure stays small however long the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.plots import theme
from specswitch.plots.figure import Words, frame, number

WORDS = Words(
    "timeline",
    "Running batch and mode over time",
    "Above, the running batch, coloured by how its steps were made; a slice of time with both kinds of step "
    "shows both colours in proportion. Below, the output tokens per second of the same slices, and the tokens "
    "per request and verify step where there were verify steps. Blank, with the lines broken: no decode step ended in "
    "that slice (prefills, a long step, or no request).",
)
MODES = (("speculative", theme.SPECULATIVE), ("plain", theme.PLAIN))


def binned(steps: pd.DataFrame, bins: int) -> pd.DataFrame:
    """Steps by slice of time.

    `steps` has the columns of `StepRecord`. Returns one row per slice that has steps, under the slice's number:
    `t_s` (start, seconds from the first step), `width_s`, `batch` (mean), `share` (speculative steps / steps), `tok_s`,
    `accept_length` (of its verify steps, NaN without any).
    """
    start, end = float(steps["t_s"].min()), float(steps["t_s"].max())
    width = max((end - start) / bins, 1e-3)
    at = np.minimum(((steps["t_s"] - start) / width).astype(int), bins - 1)
    verify = steps["mode"] == "speculative"
    grouped = steps.assign(
        slice=at,
        speculative=verify,
        verify_tokens=steps["emitted"].where(verify, 0),
        verify_requests=(steps["emitted"] - steps["accepted"]).where(verify, 0),
    ).groupby("slice")
    out = grouped.agg(
        batch=("batch", "mean"),
        share=("speculative", "mean"),
        tokens=("emitted", "sum"),
        verify_tokens=("verify_tokens", "sum"),
        verify_requests=("verify_requests", "sum"),
    )
    out["accept_length"] = out.pop("verify_tokens") / out.pop("verify_requests").replace(0, np.nan)
    out["tok_s"] = out.pop("tokens") / width
    out["t_s"] = out.index * width
    out["width_s"] = width
    return out


def timeline(
    steps: pd.DataFrame,
    threshold: int | None = None,
    bins: int = 240,
    *,
    target: Sequence[tuple[float, int]] | None = None,
) -> go.Figure | None:
    """Running batch coloured by mode; below it output tokens per second and accept length. None without steps.

    A slice in which both modes ran is drawn as two stacked parts, in proportion to their steps. `threshold`
    draws the rule's line. `target`: slots that the load wanted, (seconds, slots) from there on, on the clock of
    `t_s`, where the load began at 0; empty for an open loop. With None, the axis begins at the first step.
    """
    if steps.empty:
        return None
    slices = binned(steps, bins)
    verified = slices["accept_length"].notna().any()
    rows = 3 if verified else 2
    figure = make_subplots(
        rows=rows,
        shared_xaxes=True,
        row_heights=[0.5, 0.28, 0.22] if verified else [0.58, 0.42],
        vertical_spacing=0.06,
    )
    first_s = 0.0 if target is None else float(steps["t_s"].min())
    middle = slices["t_s"] + slices["width_s"] / 2 + first_s
    # The lines have a place for every slice, so that they break at one without steps.
    every = slices.reindex(range(slices.index.max() + 1))
    places = [round((i + 0.5) * slices["width_s"].iloc[0] + first_s, 4) for i in every.index]
    for mode, colour in MODES:
        share = slices["share"] if mode == "speculative" else 1 - slices["share"]
        figure.add_trace(
            go.Bar(
                x=[round(t, 4) for t in middle],
                y=[round(v, 3) or None for v in slices["batch"] * share],
                width=[round(w, 4) for w in slices["width_s"]],
                name=f"{mode} steps",
                marker={"color": colour, "line": {"width": 0}},
                customdata=[f"{s:.0%} of the steps" for s in share],
                hovertemplate="%{customdata}",
            ),
            row=1,
            col=1,
        )
    figure.add_trace(
        go.Scatter(
            x=places,
            y=_or_none(every["tok_s"], 1),
            name="output tokens/s",
            **_broken_line(theme.INK),
            customdata=[None if np.isnan(v) else f"{number(v)} tok/s" for v in every["tok_s"]],
            hovertemplate="%{customdata}",
        ),
        row=2,
        col=1,
    )
    if verified:
        figure.add_trace(
            go.Scatter(
                x=places,
                y=_or_none(every["accept_length"], 3),
                name="accept length",
                **_broken_line(theme.SPECULATIVE),
                hovertemplate="accept length %{y:.2f}<extra></extra>",
            ),
            row=3,
            col=1,
        )
        figure.update_yaxes(title_text="accept length", rangemode="tozero", row=3)
    if target:
        figure.add_trace(
            go.Scatter(
                x=[round(t, 4) for t, _ in target],
                y=[slots for _, slots in target],
                name="slots wanted",
                mode="lines",
                # Dotted, or its legend entry would be that of the token rate.
                line={"color": theme.INK, "width": 2, "shape": "hv", "dash": "dot"},
                hovertemplate="%{y} slots wanted<extra></extra>",
            ),
            row=1,
            col=1,
        )
    if threshold:
        figure.add_hline(y=threshold, line={"color": theme.INK, "width": 1, "dash": "dash"}, row=1, col=1)
    figure.update_xaxes(unifiedhovertitle={"text": "t = %{x:.2f} s"})
    since = "the first step" if target is None else "the load began"
    figure.update_xaxes(title_text=f"time since {since} (s)", row=rows)
    figure.update_yaxes(title_text="running batch", rangemode="tozero", row=1)
    figure.update_yaxes(title_text="output (tokens/s)", rangemode="tozero", row=2)
    notes = [] if not threshold else [f"Dashed line: threshold {threshold}."]
    return frame(figure, WORDS, 560 if verified else 460, notes, barmode="stack", bargap=0)


def _or_none(values: pd.Series, digits: int) -> list[float | None]:
    """The values rounded, None for a slice that has none."""
    return [None if np.isnan(v) else round(v, digits) for v in values]


def _broken_line(colour: str) -> dict[str, Any]:
    """How a line with gaps is drawn; marks as wide as the line show a slice that stands alone."""
    return {
        "mode": "lines+markers",
        "connectgaps": False,
        "line": {"color": colour, "width": 1.5},
        "marker": {"color": colour, "size": 2},
    }
