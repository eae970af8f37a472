"""Report pages made without a kernel: hand-made notebook outputs through the real exporter."""

from __future__ import annotations

import plotly.graph_objects as go
from nbformat import NotebookNode, v4

from plots.tables import STATIC, made_up_table
from specswitch.plots import theme
from specswitch.plots.catalogue import FIGURES
from specswitch.plots.figure import Words, frame
from specswitch.report import display, html, tables
from specswitch.report.check import Page


def cell(*outputs: dict[str, object]) -> NotebookNode:
    """An executed code cell."""
    made = [v4.new_output("display_data", data=data, metadata={}) for data in outputs]
    return v4.new_code_cell("secret_source_line = 1", outputs=made, execution_count=1)


def notebook(*cells: NotebookNode) -> NotebookNode:
    """A notebook of cells."""
    return v4.new_notebook(cells=list(cells))


def simple(table=None) -> NotebookNode:
    """A small report: headings, every figure that the table allows, the points table."""
    points = made_up_table(STATIC) if table is None else table
    cells = [v4.new_markdown_cell("# Made-up report")]
    for name, draw in FIGURES.items():
        figure = draw(points)
        if figure is not None:
            cells += [v4.new_markdown_cell(f"## About {name}"), cell(display.mimebundle(figure))]
    cells += [
        v4.new_markdown_cell("## Every point\n\n### Table"),
        cell({"text/html": tables.points(points)}),
    ]
    return notebook(*cells)


def plain_figure(name: str, points: int = 200) -> go.Figure:
    """A figure with one line of so many points."""
    line = go.Scatter(
        x=list(range(points)), y=[0.123456 * i for i in range(points)], line={"color": theme.INK}
    )
    return frame(go.Figure(line), Words(name, f"Figure {name}", "It is a line."), 300)


def html_output(text: str) -> dict[str, object]:
    """A text/html output."""
    return {"text/html": text}


def figures_of(page: str) -> list[str]:
    """Names of the figures in a page, in order."""
    return [name for name, _ in Page(page).figures]


__all__ = ["cell", "figures_of", "html", "html_output", "notebook", "plain_figure", "simple"]
