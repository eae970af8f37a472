"""The page around the notebook: contents, banners, policy, no source, no widgets, escaped text."""

import json
import re

import pytest
from nbformat import v4

from report.pages import cell, html_output, notebook, plain_figure, simple
from specswitch.report.banners import Banner
from specswitch.report.check import Page
from specswitch.report.display import CONFIG, PLOTLY_MIMETYPE, caption, mimebundle
from specswitch.report.export import WIDGET_MIMETYPE, WIDGET_NOTE, table_of_contents, to_html
from specswitch.report.html import Cell, Column, paragraph, table


@pytest.fixture(scope="module")
def page():
    return to_html(simple(), "Title & <more>", [Banner("failed", "FAILED", "2 of 4 <points> finished")])


def test_no_source_code_reaches_the_page(page):
    assert "secret_source_line" not in page


def test_title_and_banner_are_escaped(page):
    assert "<title>Title &amp; &lt;more&gt;</title>" in page
    assert "2 of 4 &lt;points&gt; finished" in page


def test_contents_link_to_every_section_heading(page):
    contents = re.search(r'<nav[^>]*class="toc".*?</nav>', page, re.S).group(0)
    links = re.findall(r'href="#([^"]+)"', contents)
    assert links == [
        "About-throughput",
        "About-ratio",
        "About-acceptance",
        "About-latency",
        "Every-point",
        "Table",
    ]
    assert all(f'id="{link}"' in page for link in links)


def test_contents_are_nested_and_balanced():
    html = table_of_contents('<h2 id="a">A¶</h2><h3 id="b">B</h3><h3 id="c">C</h3><h2 id="d">D &amp; E</h2>')
    assert html == (
        '<ul><li><a href="#a">A</a><ul><li><a href="#b">B</a></li><li><a href="#c">C</a></li></ul></li>'
        '<li><a href="#d">D &amp; E</a></li></ul>'
    )


def test_the_policy_lets_two_scripts_run_and_nothing_load(page):
    policy = re.search(r'http-equiv="Content-Security-Policy"[^>]*|content="([^"]*)"[^>]*Policy', page).group(
        0
    )
    assert "default-src 'none'" in policy
    assert len(re.findall(r"'sha256-[^']+'", policy)) == 2
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy


def test_no_share_button_and_no_plotly_server(page):
    for _, spec in Page(page).figures:
        assert spec["config"] == CONFIG
        assert "sendChartToCloud" in spec["config"]["modeBarButtonsToRemove"]
        assert spec["config"]["plotlyServerURL"] == ""


def test_a_closing_script_tag_in_a_figure_stays_text():
    figure = plain_figure("evil")
    figure.data[0].name = "</script><script>alert(1)</script>"
    page = to_html(notebook(cell(mimebundle(figure))), "x")
    assert "<script>alert" not in page
    ((_, spec),) = Page(page).figures
    assert spec["data"][0]["name"] == "</script><script>alert(1)</script>"


def test_text_outside_ascii_survives():
    page = to_html(notebook(v4.new_markdown_cell("## café 東京 🚀")), "café 東京 🚀")
    assert page.count("café 東京 🚀") >= 3
    assert page.encode("utf-8").decode("utf-8") == page


@pytest.mark.parametrize("fallback", ["HBox(children=(IntSlider(value=1),))", "FigureWidget({'data': []})"])
def test_c15_a_widget_view_becomes_a_note(fallback):
    view = {WIDGET_MIMETYPE: {"model_id": "abc"}, "text/plain": fallback}
    source = notebook(cell(view))
    source.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"abc": {}}}}
    before = json.dumps(source)
    page = to_html(source, "x")
    assert WIDGET_NOTE in page
    assert "widget-view" not in page
    assert "widget-state" not in page
    assert fallback[:12] not in page
    assert json.dumps(source) == before


def test_a_caption_has_title_reading_and_footnotes():
    figure = plain_figure("f")
    figure.layout.meta["footnotes"].append("Missing: a < b")
    html = caption(figure)
    assert "Figure f" in html
    assert "It is a line." in html
    assert "Missing: a &lt; b" in html


def test_tables_escape_text_and_sort_by_number():
    html = table(
        [Column("A"), Column("B", number=True)], [[Cell("<b>"), Cell("1,200", sort=1200)]], "t", True
    )
    assert "&lt;b&gt;" in html
    assert 'data-value="1200"' in html
    assert html.count("<button") == 2


def test_arm_names_are_set_off_in_prose():
    assert '<span class="arm">dynamic-v2-t8-lazy</span>' in paragraph("dynamic-v2-t8-lazy is fast")
    assert "<span" not in paragraph("nonetheless nothing")


def test_plotly_wins_over_the_text_of_a_figure():
    page = to_html(notebook(cell(mimebundle(plain_figure("f")))), "x")
    assert "[figure: Figure f]" not in page
    assert 'data-figure="f"' in page
    assert PLOTLY_MIMETYPE not in page


def test_html_output_is_kept_as_it_is():
    assert '<p class="x">y</p>' in to_html(notebook(cell(html_output('<p class="x">y</p>'))), "x")
