"""The engine's decision tree, with the way that given flags take. Boxes and arrows, no axes; one unit is a pixel."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

from specswitch.plots import theme
from specswitch.plots.figure import Words, frame
from specswitch.serving.path_rules import PathDecision
from specswitch.serving.path_tree import NODES, Question, Worker, following, way

WORDS = Words(
    "code-path",
    "The way of these flags",
    "The engine's questions from top to bottom, as its own code decides them, and the plugin's one about a rule. "
    "Coloured: the way of these flags, with the reason for each answer. On the right, what the scheduler will hold, "
    "and the engine's file that its steps are made by; a change anywhere else does nothing.",
)
# On a screen of 1280 pixels an output in JupyterLab has 848 of them beside the file browser, in a report 880.
WIDTH, HEIGHT = 796, 798
TOP, ROW = 86, 124  # the middle of the first row, and from there to the next


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node stands: centre and size in pixels, y downwards, and how many characters fit into a line."""

    x: float
    y: float
    width: float
    height: float
    letters: int

    @property
    def left(self) -> float:
        """x of the left edge."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """x of the right edge."""
        return self.x + self.width / 2


def _asked(row: float) -> Box:
    return Box(155, TOP + ROW * row, 290, 102, 39)


def _rule(row: float) -> Box:
    return Box(430, TOP + ROW * row, 168, 116, 24)


def _worker(row: float) -> Box:
    return Box(676, TOP + ROW * row, 216, 68, 32)


BOXES = {
    **{key: _asked(row) for row, key in enumerate(("algorithm", "eagle", "overlap", "topk", "spec_v2"))},
    "none": _worker(0),
    "other": _worker(1),
    "rule-v1": _rule(3),
    "stock-v1": _worker(2.625),
    "dynamic-v1": _worker(3.375),
    "rule-v2": _rule(5),
    "stock-v2": _worker(4.625),
    "dynamic-v2": _worker(5.375),
}
HEADS = [
    {"x": BOXES[key].x, "y": 16, "text": text, "font": {"size": 13, "color": theme.QUIET}}
    for key, text in (("algorithm", "The engine asks"), ("none", "The scheduler holds"))
]
# A plotly shape, and the annotations that go with it.
Drawn = tuple[dict[str, Any], list[dict[str, Any]]]


def decision_tree(decision: PathDecision) -> go.Figure:
    """The tree with the way of one decision. Raises path_tree.TreeError if the two do not go together."""
    taken = way(decision)
    style = {"v1": "always-v1", "v2": "always-v2"}.get(decision.path, "none")
    colour = theme.arm_style(style).colour
    figure = go.Figure(_hover(decision, taken))
    notes = [f"Refused: {problem}." for problem in decision.refused]
    hidden = {"visible": False, "fixedrange": True}
    frame(
        figure,
        WORDS,
        HEIGHT,
        notes,
        width=WIDTH,
        margin={"l": 0, "r": 0, "t": 0, "b": 0},
        showlegend=False,
        hovermode="closest",
        dragmode=False,
        xaxis={**hidden, "range": [0, WIDTH]},
        yaxis={**hidden, "range": [HEIGHT, 0]},
    )
    questions = [key for key, node in NODES.items() if isinstance(node, Question)]
    edges = sorted(  # the way last, on top
        itertools.product(questions, (True, False)), key=lambda edge: _passed(edge, taken)
    )
    drawn = [_arrow(edge, colour if _passed(edge, taken) else None) for edge in edges]
    drawn += [_box(key, decision, colour if key in taken else None) for key in NODES]
    figure.update_layout(
        shapes=[shape for shape, _ in drawn],
        annotations=[*HEADS, *(text for _, texts in drawn for text in texts)],
    )
    return figure


def _passed(edge: tuple[str, bool], taken: Sequence[str]) -> bool:
    key, yes = edge
    return key in taken and taken[taken.index(key) + 1] == following(key, yes)


def _lines(key: str, decision: PathDecision, taken: bool) -> tuple[str, str]:
    """(what stands in the box in bold, what stands below it): a question and why, or a class and its file."""
    node = NODES[key]
    if isinstance(node, Question):
        step = next((s for s in decision.steps if s.question == key), None)
        return node.text, "" if step is None else f"{'yes' if step.yes else 'no'}: {step.why}"
    if node.worker_class is None:
        return (decision.worker_class if taken else "A worker of another kind"), "it has no switch"
    below = f"on top of {node.file}" if key.startswith("dynamic") else node.file or ""
    return node.worker_class, below.replace("sglang/srt/", "")


def _box(key: str, decision: PathDecision, colour: str | None) -> Drawn:
    """One box; `colour` None: the way of these flags does not pass it."""
    box = BOXES[key]
    refused = colour is not None and isinstance(NODES[key], Worker) and bool(decision.refused)
    shape = {
        "type": "rect",
        "x0": box.left,
        "x1": box.right,
        "y0": box.y - box.height / 2,
        "y1": box.y + box.height / 2,
        "fillcolor": theme.PAPER,
        "line": {
            "color": colour or theme.GRID,
            "width": 2.5 if colour else 1.5,
            "dash": "dash" if refused else "solid",
        },
    }
    head, below = _lines(key, decision, colour is not None)
    if refused:
        below = f"refused, see below. {below}"
    rows = [f"<b>{escape(part)}</b>" for part in textwrap.wrap(head, box.letters - 6)]
    rows += [
        f"<span style='font-size:12px'>{escape(part)}</span>" for part in textwrap.wrap(below, box.letters)
    ]
    ink = theme.INK if colour else theme.QUIET
    return shape, [{"x": box.x, "y": box.y, "text": "<br>".join(rows), "font": {"size": 13, "color": ink}}]


def _arrow(edge: tuple[str, bool], colour: str | None) -> Drawn:
    """The arrow for one answer, in right angles, with its word beside the start."""
    key, yes = edge
    corners = _corners(key, yes)
    line = {"color": colour or theme.RULE, "width": 2.5 if colour else 1.25}
    path = "M " + " L ".join(f"{x:g},{y:g}" for x, y in corners)
    (start_x, start_y), (next_x, _) = corners[:2]
    (tail_x, tail_y), (end_x, end_y) = corners[-2:]
    tip = {
        **{"x": end_x, "y": end_y, "ax": tail_x, "ay": tail_y, "axref": "x", "ayref": "y"},
        **{"text": "", "showarrow": True, "arrowhead": 2},
        **{"arrowwidth": line["width"], "arrowcolor": line["color"]},
    }
    word = {
        **{"x": start_x + 6, "y": start_y + (8 if next_x == start_x else -9), "xanchor": "left"},
        "text": "yes" if yes else "no",
        "font": {"size": 12, "color": theme.INK if colour else theme.QUIET},
    }
    return {"type": "path", "path": path, "line": line}, [tip, word]


def _corners(key: str, yes: bool) -> list[tuple[float, float]]:
    """The corners of an arrow: down to the next question, else out of the right side and to the box's left."""
    start, end = BOXES[key], BOXES[following(key, yes)]
    bottom = (start.x, start.y + start.height / 2)
    if end.x == start.x:
        return [bottom, (end.x, end.y - end.height / 2)]
    if key == "spec_v2" and yes:
        return [bottom, (start.x, end.y), (end.left, end.y)]
    level = start.y + (18 if yes else -18) if key.startswith("rule") else start.y
    if level == end.y:
        return [(start.right, level), (end.left, level)]
    bend = end.left - 17  # beyond the word at the start
    return [(start.right, level), (bend, level), (bend, end.y), (end.left, end.y)]


def _hover(decision: PathDecision, taken: Sequence[str]) -> go.Scatter:
    """Invisible marks in the middle of the boxes, so that each says on hover what it means."""
    heads = [_lines(key, decision, key in taken) for key in NODES]
    return go.Scatter(
        x=[BOXES[key].x for key in NODES],
        y=[BOXES[key].y for key in NODES],
        mode="markers",
        marker={"size": 40, "color": theme.PAPER, "opacity": 0},
        customdata=[f"{escape(head)}<br>{escape(below)}" for head, below in heads],
        hovertemplate="%{customdata}<extra></extra>",
    )
