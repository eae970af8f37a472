"""What the report notebook calls to show things: a figure with its words, a table, a list of findings.

A figure goes out as plotly's own mimetype with our configuration in it: JupyterLab draws it, the report
template draws it, and no renderer setting matters. Its caption is a second output, plain HTML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import plotly.graph_objects as go
from IPython.display import HTML, display

from specswitch.report import html

PLOTLY_MIMETYPE = "application/vnd.plotly.v1+json"
# No button that sends the chart to a third party; no tools that make no sense on these figures.
CONFIG = {
    "displaylogo": False,
    "plotlyServerURL": "",
    "responsive": True,
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d"],
}


def figure(
    drawn: go.Figure | None,
    finding: str | Sequence[str] = (),
    absent: str = "This run has no data for this figure.",
) -> None:
    """Show a figure: the finding above it, the caption (title, how to read it, footnotes) below.

    `drawn` None means that the run has no data for it; then the sentence `absent` (if any) is shown instead.
    """
    if drawn is None:
        if absent:
            display(HTML(html.paragraph(absent, "absent")))
        return
    sentences = [finding] if isinstance(finding, str) else list(finding)
    if sentences:
        findings(sentences)
    display(mimebundle(drawn), raw=True)
    display(HTML(caption(drawn)))


def findings(sentences: Sequence[str]) -> None:
    """Show computed sentences: one as a paragraph, several as a list."""
    one = len(sentences) == 1
    display(HTML(html.paragraph(sentences[0], "finding") if one else html.bullets(sentences, "findings")))


def lede(text: str) -> None:
    """Show the opening paragraph."""
    display(HTML(html.paragraph(text, "lede")))


def table(ready: str, note: str = "") -> None:
    """Show a table that is HTML already, and a note below it; nothing where there is no table ("")."""
    if not ready:
        return
    display(HTML(ready + (html.paragraph(note, "table-note") if note else "")))


def mimebundle(drawn: go.Figure) -> dict[str, object]:
    """The outputs of one figure: plotly JSON with our configuration, and a text for plain readers."""
    spec = json.loads(drawn.to_json())
    meta = spec["layout"]["meta"]
    return {
        PLOTLY_MIMETYPE: {"data": spec["data"], "layout": spec["layout"], "config": CONFIG},
        "text/plain": f"[figure: {meta['title']}]",
    }


def caption(drawn: go.Figure) -> str:
    """Title, how to read it, footnotes, as HTML."""
    meta = drawn.layout.meta
    notes = "".join(html.paragraph(note, "note") for note in meta["footnotes"])
    title = f'<span class="title">{html.text(meta["title"])}.</span>'
    return f'<div class="caption"><p>{title} {html.text(meta["reading"])}</p>{notes}</div>'
