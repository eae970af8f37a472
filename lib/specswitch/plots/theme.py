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

# Light colour -> its twin on a dark ground. Hue means the path, so far as an arm has one: cold colours v1,
# warm colours v2, greys for no speculation. Lightness steps keep them apart for colour-blind readers.
DARK = MappingProxyType(
    {
        PAPER: "#14181f",
        INK: "#e7e9ee",
        QUIET: "#a3abb9",
        GRID: "#2a303b",
        RULE: "#6b7483",
        SPECULATIVE: "#f0975a",
        PLAIN: "#93a0b5",
        "#333a45": "#d5d9e0",  # none
        "#8a93a3": "#8f99aa",  # none-sync
        "#1f5fbf": "#7fb0ff",  # always-v1
        "#c2410c": "#ff9a5c",  # always-v2
        "#4aa3d8": "#a9dcff",  # off-v1
        "#d9a514": "#f7d560",  # off-v2
        "#12a396": "#31b8a8",  # dynamic-v1, four steps by threshold, all light
        "#0f9488": "#29ab9c",
        "#2bb3a3": "#48c4b4",
        "#168c8c": "#2ca9ad",
        "#8b2270": "#c14fa6",  # dynamic-v2, four steps by threshold, all deep
        "#9d2f80": "#cc60b2",
        "#741f66": "#b54a9d",
        "#a33a70": "#cf5a90",
    }
)
_FIXED = {
    "none": "#333a45",
    "none-sync": "#8a93a3",
    "always-v1": "#1f5fbf",
    "always-v2": "#c2410c",
    "off-v1": "#4aa3d8",
    "off-v2": "#d9a514",
}
_DYNAMIC = {
    "v1": ("#12a396", "#0f9488", "#2bb3a3", "#168c8c"),
    "v2": ("#8b2270", "#9d2f80", "#741f66", "#a33a70"),
}
_SYMBOLS = {
    "none": "circle",
    "none-sync": "circle",
    "always-v1": "square",
    "always-v2": "diamond",
    "off": "triangle-down",
}
_DYNAMIC_SYMBOLS = ("triangle-up", "star", "hexagon")
_DASHES = {None: "solid", "lazy": "solid", "eager": "dash", "stale": "dot"}
_LABEL = re.compile(
    r"(?P<mode>none|always|off|dynamic)(?:-(?P<path>v1|v2))?(?:-t(?P<threshold>\d+))?(?P<rest>(?:-\w+)*)$"
)


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
        octave = int(parsed["threshold"] or 1).bit_length()
        symbol = _DYNAMIC_SYMBOLS[octave // 4 % len(_DYNAMIC_SYMBOLS)]
        return Style(_DYNAMIC[path][octave % 4], symbol, _DASHES[sync])
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
