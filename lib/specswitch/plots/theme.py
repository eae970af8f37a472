"""How every figure looks: one palette, one small template, light colours with a dark twin for each.

Figures are made in the light colours. A reader that wants dark replaces each colour by its twin (`DARK`), in
traces and layout alike; so a figure may use the colours of this module only, and a test says so. An arm's
style is a function of its label alone: the same arm looks the same in every figure of every run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import plotly.graph_objects as go

FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"

PAPER, INK, QUIET, GRID, RULE = "#ffffff", "#1c2430", "#596273", "#e6e8ec", "#9aa1ad"
SPECULATIVE, PLAIN = "#d9722e", "#7a8699"  # the two modes of a decode step

# Light colour -> its twin on a dark ground. Hue means the path, so far as an arm has one: blue and green v1,
# orange to violet v2; no speculation is ink or grey. Any two are apart for colour-blind readers (a test measures
# it), and nothing else is as near to ink as `none`; who sees no colour at all has the symbols.
DARK = MappingProxyType(
    {
        PAPER: "#14181f",
        INK: "#e7e9ee",
        QUIET: "#a3abb9",
        GRID: "#2a303b",
        RULE: "#6b7483",
        SPECULATIVE: "#f0975a",
        PLAIN: "#93a0b5",
        "#151a21": "#eef2fa",  # none
        "#959595": "#9ca3ae",  # none-sync
        "#1f5fbf": "#93b3fb",  # always-v1
        "#c2410c": "#fe932a",  # always-v2
        "#4aa3d8": "#9acbf6",  # off-v1
        "#d9a514": "#fde981",  # off-v2
        "#6f9e54": "#b1d794",  # dynamic-v1, six colours that the rule chooses from
        "#87b782": "#4c934a",
        "#0b8691": "#2e9a89",
        "#41bac6": "#52d0c4",
        "#1c481a": "#8ff11b",
        "#0a7d4e": "#7db982",
        "#7e1def": "#9463db",  # dynamic-v2, six likewise
        "#764785": "#c73eaf",
        "#5007a1": "#b579fa",
        "#80334a": "#f44748",
        "#631f72": "#9f42fd",
        "#a851fd": "#b184c9",
    }
)
_FIXED = {
    "none": "#151a21",
    "none-sync": "#959595",
    "always-v1": "#1f5fbf",
    "always-v2": "#c2410c",
    "off-v1": "#4aa3d8",
    "off-v2": "#d9a514",
}
_DYNAMIC = {
    "v1": ("#6f9e54", "#87b782", "#0b8691", "#41bac6", "#1c481a", "#0a7d4e"),
    "v2": ("#7e1def", "#764785", "#5007a1", "#80334a", "#631f72", "#a851fd"),
}
_SYMBOLS = {
    "none": "circle",
    "none-sync": "circle",
    "always-v1": "square",
    "always-v2": "diamond",
    "off": "triangle-down",
}
_DYNAMIC_SYMBOLS = ("triangle-up", "star", "cross", "pentagon", "hourglass", "triangle-right", "bowtie")
_DASHES = {None: "solid", "lazy": "solid", "eager": "dash", "stale": "dot"}
_SYNC_ORDER = ("lazy", "eager", "stale")
_LABEL = re.compile(
    r"(?P<mode>none|always|off|dynamic)(?:-(?P<path>v1|v2))?(?:-t(?P<threshold>\d+))?(?P<rest>(?:-\w+)*)$"
)
_HYSTERESIS = re.compile(r"-[ed](\d+)")


@dataclass(frozen=True, slots=True)
class Style:
    """Line colour, plotly marker symbol and plotly dash of one arm."""

    colour: str
    symbol: str
    dash: str


@cache
def arm_style(label: str) -> Style:
    """Style of an arm by its label (`Arm.label`); a label of unknown form gets the quiet style."""
    if label == "none-sync":
        return Style(_FIXED[label], _SYMBOLS[label], "dash")
    parsed = _LABEL.match(label)
    if parsed is None:
        return Style(QUIET, "x", "dashdot")
    mode, path = parsed["mode"], parsed["path"]
    family = mode if path is None else f"{mode}-{path}"
    sync = next((word for word in parsed["rest"].split("-") if word in _DASHES), None)
    if mode == "dynamic" and path:
        # Neighbouring thresholds, and the sync rules of one threshold, differ in colour and in symbol.
        step = int(parsed["threshold"] or 1).bit_length() - 4
        step += sum(int(n).bit_length() for n in _HYSTERESIS.findall(parsed["rest"]))
        rule = _SYNC_ORDER.index(sync or "lazy")
        colours, symbols = _DYNAMIC[path], _DYNAMIC_SYMBOLS
        colour, symbol = colours[(step + 2 * rule) % len(colours)], symbols[(step + 3 * rule) % len(symbols)]
        return Style(colour, symbol, _DASHES[sync])
    symbol = _SYMBOLS.get(family) or _SYMBOLS.get(mode, "x")
    return Style(_FIXED.get(family, QUIET), symbol, _DASHES[sync])


def arm_order(label: str) -> tuple[int, str, int, str]:
    """Sort key: none, none-sync, always, off, dynamic; then path, threshold, name."""
    rank = {"none": 0, "none-sync": 1}.get(label)
    parsed = _LABEL.match(label)
    if parsed is None:
        return (9, "", 0, label)
    if rank is None:
        rank = {"always": 2, "off": 3, "dynamic": 4}.get(parsed["mode"], 8)
    return (rank, parsed["path"] or "", int(parsed["threshold"] or 0), label)


@cache
def template() -> go.layout.Template:
    """The small template of every figure (well under 2 KB of JSON; plotly's own has 7)."""
    axis = {
        "gridcolor": GRID,
        "linecolor": RULE,
        "zerolinecolor": GRID,
        "tickcolor": RULE,
        "ticks": "outside",
        "ticklen": 4,
        "showline": True,
        "automargin": True,
        "spikecolor": RULE,
        "spikethickness": 1,
        "title": {"standoff": 10, "font": {"size": 12.5, "color": QUIET}},
        "tickfont": {"size": 12, "color": QUIET},
    }
    layout = go.Layout(
        font={"family": FONT, "size": 13, "color": INK},
        paper_bgcolor=PAPER,
        plot_bgcolor=PAPER,
        margin={"l": 64, "r": 20, "t": 56, "b": 56},
        hovermode="x unified",
        hoverdistance=-1,  # the nearest concurrency, wherever the mouse is
        hoverlabel={"bgcolor": PAPER, "bordercolor": RULE, "font": {"size": 12.5, "color": INK}},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.0,
            "yanchor": "top",
            "yref": "container",
            "font": {"size": 12.5},
        },
        modebar={"bgcolor": PAPER, "color": RULE, "activecolor": INK},
        annotationdefaults={"font": {"color": INK, "size": 13}, "showarrow": False},
        xaxis=axis,
        yaxis=axis,
    )
    return go.layout.Template(layout=layout)
