"""What all figures share: a line with error bars per arm, hover text, footnotes, the frame around it.

A figure carries its name, title, how to read it and its footnotes in `layout.meta`, so that whoever shows it
(notebook, report) can print them; `footnotes(figure)` reads the last back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import plotly.graph_objects as go

from specswitch.metrics.intervals import Interval, says_ratio, says_size
from specswitch.plots import theme
from specswitch.plots.cut_off import cut_notes
from specswitch.plots.grid import Series

Hover = Callable[[int, Interval], str]


@dataclass(frozen=True, slots=True)
class Words:
    """A figure's `name` (an id), `title`, and `reading`: how a stranger should read it."""

    name: str
    title: str
    reading: str


def line(series: Series, hover: Hover, **extra: Any) -> go.Scatter:
    """The marks of one series: means joined by a line, 95 % intervals as bars, gaps left open.

    A point without an interval (one repeat) gets a hollow marker. `hover(concurrency, interval)` is the text
    beside the arm's name in the hover label.
    """
    style = theme.arm_style(series.label)
    points = series.points
    return go.Scatter(
        x=list(series.x),
        y=[None if p is None else short(p.mean) for p in points],
        name=series.name,
        legendgroup=series.name,
        mode="lines+markers",
        connectgaps=False,
        line={"color": style.colour, "width": 2, "dash": style.dash},
        marker=marker(style, [c in series.singles for c in series.x]),
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [None if p is None or p.high is None else short(p.high - p.mean) for p in points],
            "arrayminus": [None if p is None or p.low is None else short(p.mean - p.low) for p in points],
            "color": style.colour,
            "thickness": 1.4,
            "width": 5,
        },
        customdata=[None if p is None else hover(c, p) for c, p in zip(series.x, points, strict=True)],
        hovertemplate=f"{series.name}: %{{customdata}}<extra></extra>",
        **extra,
    )


def marker(style: theme.Style, hollow: Sequence[bool]) -> dict[str, Any]:
    """Plotly's marker of one line: filled where a point has an interval, hollow where it rests on one repeat."""
    return {
        "color": [theme.PAPER if h else style.colour for h in hollow],
        "line": {"color": style.colour, "width": 1.75},
        "symbol": style.symbol,
        "size": 8,
    }


def frame(
    figure: go.Figure,
    words: Words,
    height: int,
    footnotes: Sequence[str] = (),
    *,
    at: str = "C =",
    **layout: Any,
) -> go.Figure:
    """Put the house template, the height in pixels and the words on a figure whose axes are ready.

    `footnotes` name what is missing or special in this very figure; intervals that leave their axis are added, at
    positions called `at` (`cut_off`).
    """
    figure.update_annotations(font={"size": 13.5})
    figure.update_layout(
        template=theme.template(),
        height=height,
        meta={**asdict(words), "footnotes": [*footnotes, *cut_notes(figure, at)]},
        **layout,
    )
    return figure


def footnotes(figure: go.Figure) -> list[str]:
    """The footnotes of a figure made by `frame`."""
    return list(figure.layout.meta["footnotes"])


HOLLOW = "Hollow markers: one repeat, so no interval."
TIMES = "×"  # the unit of ratios


def interval_text(interval: Interval, digits: int = 3, unit: str = "", small: float = 0.0) -> str:
    """`1,234 ms (1,200 to 1,270), n = 3`: significant digits, the unit, the 95 % interval, the repeats.

    Where the interval says nothing (`known`), words and no numbers.
    """
    mean, low, high = interval.mean, interval.low, interval.high
    if low is None or high is None:
        return f"{number(mean, digits)}{unit} (one repeat, no interval)"
    if not known(interval, unit, small):
        return unknown(interval)
    most = max(abs(low), abs(mean), abs(high))
    mean_, low_, high_ = (number(v, digits, beside=most) for v in (mean, low, high))
    return f"{mean_}{unit} ({low_} to {high_}), n = {interval.n}"


def known(interval: Interval, unit: str = "", small: float = 0.0) -> bool:
    """Whether the interval says anything: as a ratio where the unit begins with `TIMES`, else as a mean.

    `small`: a half-width that says enough, in the unit. True for a single repeat, which is told as one.
    """
    if interval.low is None:
        return True
    return says_ratio(interval) if unit.startswith(TIMES) else says_size(interval, small)


def unknown(interval: Interval) -> str:
    """What is written in place of an interval that says nothing."""
    return f"not known from these {interval.n} repeats"


def short(value: float) -> float:
    """`value` to six significant digits: more than a pixel shows, less than half the text."""
    return float(f"{value:.6g}")


def number(value: float, digits: int = 3, beside: float = 0.0) -> str:
    """`value` with `digits` significant digits, plain notation, thousands separated; integers kept whole.

    `beside`: the largest number that stands with it; one far smaller gets no more decimals than that one.
    """
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    if abs(value) * 10 < abs(beside):
        decimals = len(number(beside, digits).partition(".")[2])
        text = f"{value:,.{decimals}f}"
    else:
        text = f"{value:#,.{digits}g}".rstrip(".")
        text = f"{value:,.{digits}f}" if "e" in text else text
    return text if text.strip("-0.,") else text.lstrip("-")  # no "-0.00"


def gap_notes(
    series: Iterable[Series], undefined: str = "no steady window was reached", logarithmic: bool = False
) -> list[str]:
    """Footnotes that name every missing point, and one that says what hollow markers are, where there are any.

    `undefined` says why a point that did finish can have no value here.
    """
    lines = list(series)
    unrun = [(s.name, [c for c in s.gaps if c not in s.ran]) for s in lines]
    empty = [(s.name, [c for c in s.gaps if c in s.ran]) for s in lines]
    notes = {
        "Missing, shown as gaps": unrun,
        f"Finished, but without a value ({undefined})": empty,
        "Zero, which a logarithmic axis cannot show": [(s.name, s.zeros) for s in lines if logarithmic],
    }
    named = [f"{head}: {_places(found)}." for head, found in notes.items() if any(c for _, c in found)]
    return named + hollow_notes(lines)


def hollow_notes(drawn: Iterable[Series]) -> list[str]:
    """The footnote on hollow markers, if a point of these rests on one repeat. Where they are, the figure shows."""
    return [HOLLOW] if any(s.singles for s in drawn) else []


def _places(found: Sequence[tuple[str, Sequence[int]]]) -> str:
    """`always-v1 at C = 2, 8; none at C = 1`."""
    return "; ".join(f"{name} at C = {', '.join(map(str, at))}" for name, at in found if at)
