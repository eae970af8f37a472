"""The figures of a crossing run: arms side by side over time, recovery of acceptance, cost of a change of mode."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.metrics.intervals import Interval, mean_interval
from specswitch.metrics.recovery import BACK
from specswitch.plots import theme
from specswitch.plots.axes import linear_axis
from specswitch.plots.figure import (
    HOLLOW,
    TIMES,
    Words,
    frame,
    hollow_notes,
    interval_text,
    line,
    marker,
    short,
)
from specswitch.plots.grid import Series, labels_of, positive_ratio
from specswitch.plots.side_by_side import beside
from specswitch.plots.timeline import timeline as draw_timeline
from specswitch.results.crossing import Crossing

RATES = Words(
    "rates",
    "Output rate while the load changes",
    "Above, what the load wanted (closed loop only). Below, the output tokens per second of every arm in slices "
    "of time, means over repeats; 95% t intervals are in the hover label. A dynamic arm should follow the better "
    "of the others at every load.",
)
RECOVERY = Words(
    "recovery",
    "Acceptance after speculation comes back",
    "Accept length in the 1st, 2nd, ... verify step since speculation was resumed, over the accept length of the "
    "arm that always speculates (all of its verify steps, same path, same repeat). At 1 nothing was lost; the "
    f"dashed line is {BACK:g}. Geometric means over repeats with 95% t intervals. Requests that began after the "
    "resume are in it, too, the more the later the step; and accept length changes with the place in an answer, "
    "which is not the same in both. Several arms stand side by side at their step.",
)
SWITCH_COST = Words(
    "switch-cost",
    "Step time around a change of mode",
    "Time of each step over the usual (median) time of an undisturbed step of the same mode and batch size; step 0 "
    "is the first of the new mode. A load that rises past the threshold brings prefills, which lie between the "
    "steps and are counted here: the left panel holds the admission of new requests, not the change alone. Means "
    "over repeats with 95% t intervals; several arms stand side by side at their step.",
)
DIRECTIONS = (("plain", "to plain steps"), ("speculative", "back to speculative steps"))


def timeline(seen: Crossing) -> go.Figure | None:
    """One arm step by step: running batch and mode, token rate, accept length. None without steps."""
    figure = draw_timeline(seen.steps, seen.threshold, target=seen.target)
    if figure is not None:
        notes = [f"The arm is {seen.shown}, in its first finished repeat.", *figure.layout.meta["footnotes"]]
        figure.layout.meta = {**figure.layout.meta, "footnotes": notes}
    return figure


def rates(seen: Crossing) -> go.Figure | None:
    """Tokens per second of every arm over time, under what the load wanted. None without a finished point."""
    if seen.rates.empty:
        return None
    rows = 2 if seen.target else 1
    figure = make_subplots(
        rows=rows, shared_xaxes=True, row_heights=[0.25, 0.75][-rows:], vertical_spacing=0.06
    )
    if seen.target:
        wanted = go.Scatter(
            x=[t for t, _ in seen.target],
            y=[slots for _, slots in seen.target],
            name="slots wanted",
            mode="lines",
            line={"color": theme.INK, "width": 2, "shape": "hv", "dash": "dot"},
            hovertemplate="%{y} slots wanted<extra></extra>",
        )
        figure.add_trace(wanted, row=1, col=1)
        figure.update_yaxes(title_text="slots", rangemode="tozero", row=1)
    hollow = False
    for label in labels_of(seen.rates):
        by_slice = _by_position(seen.rates[seen.rates["label"] == label], "t_s", "tok_s")
        style = theme.arm_style(label)
        singles = [p.low is None for p in by_slice.values()]
        hollow = hollow or any(singles)
        means = go.Scatter(
            x=[short(t) for t in by_slice],
            y=[short(p.mean) for p in by_slice.values()],
            name=label,
            mode="lines+markers",
            line={"color": style.colour, "width": 2, "dash": style.dash},
            marker={**marker(style, singles), "maxdisplayed": 12},
            customdata=[interval_text(p, 3, " tok/s") for p in by_slice.values()],
            hovertemplate=f"{label}: %{{customdata}}<extra></extra>",
        )
        figure.add_trace(means, row=rows, col=1)
    figure.update_yaxes(title_text="output (tokens/s)", rangemode="tozero", row=rows)
    figure.update_xaxes(title_text="time since the load began (s)", row=rows)
    figure.update_xaxes(unifiedhovertitle={"text": "t = %{x:.2f} s"})
    return frame(figure, RATES, 480 if seen.target else 380, [HOLLOW] if hollow else [])


def recovery(seen: Crossing) -> go.Figure | None:
    """Accept length by verify step since the resume ÷ always-on. None without a resume or without always."""
    drawn = [s for s in recovery_series(seen.recovery) if s.drawable]
    if not drawn:
        return None
    figure = go.Figure(beside([line(s, _times, showlegend=True) for s in drawn]))
    figure.add_hline(y=1, line={"color": theme.RULE, "width": 1.25}, layer="below")
    figure.add_hline(y=BACK, line={"color": theme.QUIET, "width": 1, "dash": "dash"}, layer="below")
    figure.update_xaxes(
        title_text="verify steps since the resume", unifiedhovertitle={"text": "verify step %{x:.0f}"}
    )
    figure.update_yaxes(linear_axis(drawn, "accept length ÷ always-on", include=[BACK, 1.0]))
    return frame(figure, RECOVERY, 420, hollow_notes(drawn), at="step")


def switch_cost(seen: Crossing) -> go.Figure | None:
    """Step times around a change of mode ÷ the usual ones, one panel per direction. None without a change."""
    cells = [change_series(seen.changes, to) for to, _ in DIRECTIONS]
    drawn = [s for cell in cells for s in cell]
    if not drawn:
        return None
    figure = make_subplots(cols=2, subplot_titles=[words for _, words in DIRECTIONS], shared_yaxes=True)
    named: set[str] = set()
    for col, cell in enumerate(cells, start=1):
        for trace in beside([line(s, _times, showlegend=s.name not in named) for s in cell]):
            figure.add_trace(trace, row=1, col=col)
        named |= {s.name for s in cell}
    figure.add_hline(y=1, line={"color": theme.RULE, "width": 1.25}, layer="below")
    figure.add_vline(x=-0.5, line={"color": theme.QUIET, "width": 1, "dash": "dash"}, layer="below")
    figure.update_xaxes(title_text="steps since the change", unifiedhovertitle={"text": "step %{x:.0f}"})
    figure.update_yaxes(linear_axis(drawn, "step time ÷ usual step time", include=[0.5, 1.5]), col=1)
    return frame(figure, SWITCH_COST, 400, hollow_notes(drawn), at="step", margin={"t": 76})


CROSSING_FIGURES: dict[str, Callable[[Crossing], go.Figure | None]] = {
    "timeline": timeline,
    "rates": rates,
    "recovery": recovery,
    "switch-cost": switch_cost,
}


def drawable(seen: Crossing) -> list[str]:
    """Names of the figures that a page on this run must show."""
    return [name for name, draw in CROSSING_FIGURES.items() if draw(seen) is not None]


def recovery_series(table: pd.DataFrame) -> list[Series]:
    """One series per dynamic arm: ratio to always-on by verify step, paired by repeat."""
    found = []
    for label in labels_of(table):
        known = table[(table["label"] == label) & table["always_den"].notna()]
        steps = sorted({int(s) for s in known["step"]})
        points = [_to_always(known[known["step"] == step]) for step in steps]
        found.append(Series(label, label, tuple(steps), tuple(points), frozenset(steps)))
    return found


def change_series(table: pd.DataFrame, to: str) -> list[Series]:
    """One series per arm that changed to this mode: relative step time by offset."""
    of_mode = table[table["to"] == to]
    found = []
    for label in labels_of(of_mode):
        by_offset = _by_position(of_mode[of_mode["label"] == label], "offset", "relative")
        offsets = tuple(int(o) for o in by_offset)
        found.append(Series(label, label, offsets, tuple(by_offset.values()), frozenset(offsets)))
    return found


def _times(_: int, interval: Interval) -> str:
    return interval_text(interval, 3, TIMES)


def _to_always(rows: pd.DataFrame) -> Interval | None:
    ours = [float(n) / float(d) for n, d in zip(rows["num"], rows["den"], strict=True)]
    always = [float(n) / float(d) for n, d in zip(rows["always_num"], rows["always_den"], strict=True)]
    return positive_ratio(ours, always)


def _by_position(rows: pd.DataFrame, position: str, value: str) -> dict[float, Interval]:
    """Mean over repeats with its interval at every value of a column, in order."""
    found = {}
    for at, group in sorted(rows.groupby(position), key=lambda item: float(str(item[0]))):
        interval = mean_interval([float(v) for v in group[value]])
        if interval is not None:
            found[float(str(at))] = interval
    return found
