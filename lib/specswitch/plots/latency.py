"""The four latencies that serving benchmarks report, mean and 99th percentile side by side."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from specswitch.plots.axes import concurrency_axis, log_axis
from specswitch.plots.figure import Words, frame, gap_notes, interval_text, line
from specswitch.plots.grid import Grid

WORDS = Words(
    "latency",
    "Latency over concurrency",
    "Lower is better. Left the mean, right the 99th percentile of the steady window; marks are means over "
    "repeats with 95% t intervals, all axes logarithmic. TTFT: sending to first token. ITL: time per output "
    "token after the first, counted per token and not per chunk. TPOT: a request's time after its first "
    "token ÷ its further tokens. E2E: sending to the end of the stream.",
)
METRICS = (("ttft_ms", "TTFT"), ("itl_ms", "ITL"), ("tpot_ms", "TPOT"), ("e2e_ms", "E2E"))
UNDEFINED = "no such event in a steady window"
STATISTICS = (("mean", "mean"), ("p99", "99th percentile"))


def latency(table: pd.DataFrame) -> go.Figure | None:
    """TTFT, ITL, TPOT and E2E in milliseconds (rows), mean and p99 (columns), with t intervals over repeats.

    Log axes; the two panels of a row share their scale. None when the table has no latency.
    """
    grid = Grid(table)
    rows = [
        [[grid.mean(label, f"{metric}_{stat}").positive() for label in grid.labels] for stat, _ in STATISTICS]
        for metric, _ in METRICS
    ]
    everything = [s for row in rows for cell in row for s in cell]
    if not any(s.drawable for s in everything):
        return None
    figure = make_subplots(
        rows=len(METRICS),
        cols=len(STATISTICS),
        shared_xaxes=True,
        column_titles=[title for _, title in STATISTICS],
        vertical_spacing=0.045,
        horizontal_spacing=0.07,
    )
    shown: set[str] = set()
    for r, ((_, name), cells) in enumerate(zip(METRICS, rows, strict=True), start=1):
        for c, cell in enumerate(cells, start=1):
            for series in (s for s in cell if s.drawable):
                trace = line(
                    series,
                    lambda _, p: interval_text(p, 3, " ms"),
                    showlegend=series.label not in shown,
                )
                shown.add(series.label)
                figure.add_trace(trace, row=r, col=c)
        drawn = [s for cell in cells for s in cell if s.drawable]
        if drawn:
            figure.update_yaxes(log_axis(drawn, None), row=r)
            figure.update_yaxes(title_text=f"{name} (ms)", row=r, col=1)
    figure.update_xaxes(concurrency_axis(grid.concurrencies, title=None))
    figure.update_xaxes(title_text=concurrency_axis(grid.concurrencies)["title"]["text"], row=len(METRICS))
    notes = gap_notes(rows[0][0], UNDEFINED)
    for (_, name), cells in zip(METRICS[1:], rows[1:], strict=True):
        notes += [f"{name}: {note}" for note in gap_notes(cells[0], UNDEFINED) if note not in notes]
    return frame(figure, WORDS, 900, notes, margin={"t": 76})
