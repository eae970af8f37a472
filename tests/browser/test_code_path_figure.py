"""The decision tree as a browser draws it: every text inside its box, all of it in sight on a small screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.pages import cell, notebook
from specswitch.plots.code_path import BOXES, decision_tree
from specswitch.report import display
from specswitch.report.export import to_html
from specswitch.serving.code_path import common

TEXTS = """(canvas) => [...canvas.querySelectorAll('.annotation')].map((a) => {
  const text = a.querySelector('.annotation-text').getBoundingClientRect(), all = canvas.getBoundingClientRect();
  return [text.left - all.left, text.right - all.left, text.top - all.top, text.bottom - all.top];
}).filter(([left, right]) => right > left)"""  # the tip of an arrow has no text


@pytest.fixture(scope="module")
def page_of_all_ways(tmp_path_factory) -> Path:
    figures = []
    for i, (_, decision) in enumerate(common()):
        figure = decision_tree(decision)
        figure.layout.meta = {**figure.layout.meta, "name": f"way-{i}"}
        figures.append(figure)
    path = tmp_path_factory.mktemp("ways") / "ways.html"
    path.write_text(
        to_html(notebook(*(cell(display.mimebundle(f)) for f in figures)), "ways"), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("width", [1280, 1400])
def test_every_text_is_inside_its_box_and_nothing_is_cut(open_page, page_of_all_ways, width):
    page, seen = open_page(page_of_all_ways, width=width)
    frames = page.locator("figure.plot")
    assert frames.count() == len(common())
    assert frames.evaluate_all("(fs) => fs.every((f) => f.scrollWidth <= f.clientWidth)")
    for i in range(frames.count()):
        texts = frames.nth(i).locator(".canvas").evaluate(TEXTS)
        for box in BOXES.values():
            inside = [
                t
                for t in texts
                if box.left < (t[0] + t[1]) / 2 < box.right and abs(sum(t[2:]) / 2 - box.y) < 20
            ]
            assert len(inside) == 1, (i, box)
            left, right, top, bottom = inside[0]
            assert box.left + 2 <= left < right <= box.right - 2, (i, box)
            assert box.y - box.height / 2 <= top < bottom <= box.y + box.height / 2, (i, box)
    assert seen.errors == []
