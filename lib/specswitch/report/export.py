"""An executed notebook -> one HTML text that opens from a file, offline, through our nbconvert template.

Inputs are left out, widget views are replaced by a note, and only two scripts may run: ours and plotly,
each named by its hash in the page's Content-Security-Policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from traitlets.config import Config

import specswitch
from specswitch.plots.theme import DARK
from specswitch.report import bundle
from specswitch.report.banners import Banner
from specswitch.report.display import PLOTLY_MIMETYPE
from specswitch.report.scrub import scrub

TEMPLATES = Path(__file__).parent / "templates"
WIDGET_MIMETYPE = "application/vnd.jupyter.widget-view+json"
# Cells that papermill puts in to point at an error, and those that speak to whoever runs the notebook.
LEFT_OUT_TAGS = {"papermill-error-cell-tag", "notebook-only"}
WIDGET_NOTE = "An interactive widget stood here; it lives in the notebook only."


def to_html(notebook: NotebookNode, title: str, banners: Sequence[Banner] = ()) -> str:
    """The whole page. `notebook` must be executed; it is not changed."""
    exporter = HTMLExporter(config=_config())
    exporter.register_filter("toc", table_of_contents)
    exporter.register_filter("scrub", scrub)
    body, _ = exporter.from_notebook_node(printable(notebook), resources={"page": _page(title, banners)})
    return body


def _config() -> Config:
    config = Config()
    config.TemplateExporter.extra_template_basedirs = [str(TEMPLATES)]
    config.TemplateExporter.template_name = "specswitch"
    config.TemplateExporter.exclude_input = True
    config.TemplateExporter.exclude_output_prompt = True
    config.NbConvertBase.display_data_priority = [
        PLOTLY_MIMETYPE,
        "text/html",
        "text/markdown",
        "image/svg+xml",
        "image/png",
        "image/jpeg",
        "text/plain",
    ]
    return config


def _page(title: str, banners: Sequence[Banner]) -> dict[str, Any]:
    """What the template prints around the notebook."""
    folder = TEMPLATES / "specswitch"
    script = (folder / "page.js").read_text(encoding="utf-8")
    allowed = f"{bundle.script_csp_source()} {bundle.csp_source(script.encode('utf-8'))}"
    return {
        "title": title,
        "version": specswitch.__version__,
        "banners": [asdict(banner) for banner in banners],
        "css": (folder / "page.css").read_text(encoding="utf-8"),
        "script": script,
        "bundle": bundle.base64_text(),
        "dark": dict(DARK),
        "csp": f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'",
    }


def table_of_contents(content: str) -> str:
    """Nested list of links to the h2 and h3 headings of `content` (HTML with ids on its headings)."""
    entries = [
        (int(heading.name[1]), heading["id"], heading.get_text().removesuffix("¶").strip())
        for heading in BeautifulSoup(content, "html.parser").find_all(["h2", "h3"])
        if heading.get("id")
    ]
    parts, depth = ["<ul>"], 2
    for i, (level, anchor, text) in enumerate(entries):
        if level > depth:
            parts.append("<ul>")
        else:
            parts.append("</li>" * (i > 0) + "</ul></li>" * (depth - level))
        parts.append(f'<li><a href="#{escape(str(anchor))}">{escape(text)}</a>')
        depth = level
    parts.append("</li>" * bool(entries) + "</ul></li>" * (depth - 2) + "</ul>")
    return "".join(parts)


def printable(notebook: NotebookNode) -> NotebookNode:
    """A copy in which every widget view is a line of text, without the widgets' state and cells not for a page."""
    copy = NotebookNode(notebook, metadata=NotebookNode(notebook.metadata))
    copy.metadata.pop("widgets", None)
    shown = [c for c in notebook.cells if not LEFT_OUT_TAGS & set(c.metadata.get("tags", []))]
    copy.cells = [_without_widgets(c) for c in shown]
    return copy


def _without_widgets(cell: NotebookNode) -> NotebookNode:
    outputs = [
        NotebookNode(output, data=NotebookNode({"text/markdown": f"*{WIDGET_NOTE}*"}))
        if WIDGET_MIMETYPE in output.get("data", {}) and PLOTLY_MIMETYPE not in output["data"]
        else output
        for output in cell.get("outputs", [])
    ]
    return NotebookNode(cell, outputs=outputs) if cell.cell_type == "code" else cell
