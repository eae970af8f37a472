"""The live figure: running batch, mode, accept length and tokens/s on one time axis, fed by samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.plots import theme
from specswitch.plots.figure import Words, frame, short
from specswitch.report.display import CONFIG
from specswitch.widgets.samples import Sample

WORDS = Words(
    "live",
    "The server now",
    "From above: running batch with the threshold as a dashed line; share of speculative steps; accept length; "
    "output tokens per second of decode steps. A gap means that there was nothing to measure.",
)
BATCH, THRESHOLD, SHARE, LENGTH, RATE = range(5)
HEIGHT = 620


def live_figure() -> go.FigureWidget:
    """The figure, empty. Needs anywidget."""
    figure = make_subplots(
        rows=4, shared_xaxes=True, row_heights=[0.34, 0.14, 0.24, 0.28], vertical_spacing=0.045
    )
    figure.add_trace(_line("running batch", theme.INK, shape="hv"), row=1, col=1)
    figure.add_trace(_line("threshold", theme.QUIET, shape="hv", dash="dash"), row=1, col=1)
    figure.add_trace(
        _line("speculative steps", theme.SPECULATIVE, shape="vh").update(fill="tozeroy"), row=2, col=1
    )
    figure.add_trace(
        _line("accept length", theme.SPECULATIVE).update(mode="lines+markers", marker={"size": 4}),
        row=3,
        col=1,
    )
    figure.add_trace(_line("tokens/s", theme.PLAIN), row=4, col=1)
    figure.update_yaxes(title_text="running batch", rangemode="tozero", row=1)
    figure.update_yaxes(
        title_text="mode", range=[0, 1.02], tickvals=[0, 1], ticktext=["plain", "speculative"], row=2
    )
    figure.update_yaxes(title_text="accept length", rangemode="tozero", row=3)
    figure.update_yaxes(title_text="output (tokens/s)", rangemode="tozero", row=4)
    figure.update_xaxes(title_text="time since the start (s)", row=4)
    frame(figure, WORDS, HEIGHT, showlegend=False, autosize=True, margin={"l": 90, "r": 20, "t": 16, "b": 48})
    widget = go.FigureWidget(figure)
    widget._config = {**widget._config, **CONFIG}
    return widget


def draw(figure: go.FigureWidget, samples: Iterable[Sample], start_s: float) -> None:
    """Show these samples, `start_s` (CLOCK_MONOTONIC) being time 0. One message to the browser."""
    shown = list(samples)
    x = [round(sample.t_s - start_s, 2) for sample in shown]
    columns: list[Sequence[float | None]] = [
        [s.running_batch for s in shown],
        [s.threshold for s in shown],
        [s.speculative_share for s in shown],
        [s.accept_length for s in shown],
        [s.tok_s for s in shown],
    ]
    with figure.batch_update():
        for trace, column in zip(figure.data, columns, strict=True):
            trace.x = x
            trace.y = [None if value is None else short(value) for value in column]


def _line(name: str, colour: str, shape: str = "linear", dash: str = "solid") -> go.Scatter:
    return go.Scatter(
        x=[],
        y=[],
        name=name,
        mode="lines",
        connectgaps=False,
        line={"color": colour, "width": 1.75, "shape": shape, "dash": dash},
        hovertemplate="%{y}",
    )
