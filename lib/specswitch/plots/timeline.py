"""One point seen step by step: running batch, mode and token rate on one time axis.

Steps are summed up in at most `bins` equal slices of time, so the figure stays small however long the run.
"""

from __future__ import annotations

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
    "shows both colours in proportion. Below, the output tokens per second of the same slices.",
)
MODES = (("speculative", theme.SPECULATIVE), ("plain", theme.PLAIN))


def binned(steps: pd.DataFrame, bins: int) -> pd.DataFrame:
    """Steps by slice of time.

    `steps` has the columns of `StepRecord`. Returns one row per slice that has steps: `t_s` (start, seconds
    from the first step), `width_s`, `batch` (mean), `share` (speculative steps / steps), `tok_s`.
    """
    start, end = float(steps["t_s"].min()), float(steps["t_s"].max())
    width = max((end - start) / bins, 1e-3)
    at = np.minimum(((steps["t_s"] - start) / width).astype(int), bins - 1)
    grouped = steps.assign(slice=at, speculative=steps["mode"] == "speculative").groupby("slice")
    out = grouped.agg(batch=("batch", "mean"), share=("speculative", "mean"), tokens=("emitted", "sum"))
    out["tok_s"] = out.pop("tokens") / width
    out["t_s"] = out.index * width
    out["width_s"] = width
    return out.reset_index(drop=True)


def timeline(steps: pd.DataFrame, threshold: int | None = None, bins: int = 240) -> go.Figure | None:
    """Running batch coloured by mode, and output tokens per second below it. None without steps.

    A slice in which both modes ran is drawn as two stacked parts, in proportion to their steps. `threshold`
    draws the rule's line.
    """
    if steps.empty:
        return None
    slices = binned(steps, bins)
    figure = make_subplots(rows=2, shared_xaxes=True, row_heights=[0.58, 0.42], vertical_spacing=0.07)
    middle = slices["t_s"] + slices["width_s"] / 2
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
            x=[round(t, 4) for t in middle],
            y=[round(v, 1) for v in slices["tok_s"]],
            name="output tokens/s",
            mode="lines",
            line={"color": theme.INK, "width": 1.5},
            customdata=[f"{number(v)} tok/s" for v in slices["tok_s"]],
            hovertemplate="%{customdata}",
        ),
        row=2,
        col=1,
    )
    if threshold:
        figure.add_hline(y=threshold, line={"color": theme.INK, "width": 1, "dash": "dash"}, row=1, col=1)
    figure.update_xaxes(unifiedhovertitle={"text": "t = %{x:.2f} s"})
    figure.update_xaxes(title_text="time since the first step (s)", row=2)
    figure.update_yaxes(title_text="running batch", rangemode="tozero", row=1)
    figure.update_yaxes(title_text="output (tokens/s)", rangemode="tozero", row=2)
    notes = [] if not threshold else [f"Dashed line: threshold {threshold}."]
    return frame(figure, WORDS, 460, notes, barmode="stack", bargap=0)
