"""The report in a real browser: offline, silent, drawn in both themes, alive under the mouse."""

import json
import re

import pytest

from browser.offline import wait_drawn
from plots.tables import made_up_table
from report.built import crossing_report, report_of
from report.pages import cell, html_output, notebook, simple
from specswitch.plots import theme as house
from specswitch.plots.catalogue import FIGURES
from specswitch.report import bundle
from specswitch.report.check import Page as Parsed
from specswitch.report.export import to_html

BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def rgb(colour):
    """`#rrggbb` as browsers write it."""
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def figure_background(page, name):
    return page.evaluate(
        "(n) => getComputedStyle(document.querySelector(`#figure-${n} .main-svg`)).backgroundColor", name
    )


def hover(page, name, share=0.5):
    """Move the real mouse over the first panel of a figure; returns the text of the hover label."""
    panel = page.locator(f"#figure-{name} .nsewdrag").first
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=4)
    label = page.locator(f"#figure-{name} .hoverlayer .legend")
    label.wait_for()
    return label.text_content()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Write a hand-made notebook's page to a file."""
    folder = tmp_path_factory.mktemp("pages")

    def write(source, name):
        path = folder / f"{name}.html"
        path.write_text(to_html(source, name), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_is_drawn_offline_without_a_request_or_an_error(open_page, theme):
    page, seen = open_page(report_of("whole"), theme=theme)
    assert seen.requests == []
    assert seen.errors == []
    specs = dict(Parsed(report_of("whole").read_text(encoding="utf-8")).figures)
    assert list(specs) == list(FIGURES)
    paper = house.PAPER if theme == "light" else house.DARK[house.PAPER]
    assert page.evaluate(BACKGROUND) == rgb(paper)
    for name, spec in specs.items():
        lines = page.locator(f"#figure-{name} .scatterlayer .trace .js-line")
        # Traces of markers alone hold hover labels.
        with_line = [t for t in spec["data"] if t.get("mode") != "markers"]
        assert lines.count() == len(with_line) > 0, name
        lengths = lines.evaluate_all("(paths) => paths.map((p) => p.getTotalLength())")
        assert min(lengths) > 20, name
        assert figure_background(page, name) == rgb(paper), name


def test_the_theme_button_changes_page_and_figures_there_and_back(open_page):
    page, seen = open_page(report_of("whole"))

    def look():
        first_line = page.locator("#figure-throughput .scatterlayer .js-line").first
        return (
            page.evaluate(BACKGROUND),
            figure_background(page, "latency"),
            first_line.evaluate("(p) => getComputedStyle(p).stroke"),
        )

    none = house.arm_style("none").colour
    light, dark = house.PAPER, house.DARK[house.PAPER]
    assert look() == (rgb(light), rgb(light), rgb(none))
    page.get_by_role("button", name="Dark theme").click()
    wait_drawn(page, "drawn-dark")
    assert look() == (rgb(dark), rgb(dark), rgb(house.DARK[none]))
    page.get_by_role("button", name="Light theme").click()
    wait_drawn(page, "drawn-light")
    assert look() == (rgb(light), rgb(light), rgb(none))
    assert seen.errors == []


def test_the_page_follows_the_system_until_the_reader_chooses(open_page):
    page, _ = open_page(report_of("failed"))
    page.emulate_media(color_scheme="dark")
    wait_drawn(page, "drawn-dark")
    page.get_by_role("button", name="Light theme").click()
    wait_drawn(page, "drawn-light")
    page.emulate_media(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(300)
    assert page.evaluate(BACKGROUND) == rgb(house.PAPER)


@pytest.mark.parametrize("name", FIGURES)
def test_the_mouse_brings_up_a_label_with_interval_and_repeats(open_page, name):
    page, seen = open_page(report_of("whole"))
    text = hover(page, name)
    assert re.search(r"C = \d+", text)
    assert re.search(r"dynamic-v2-t8-lazy.*: .*\([\d.,]+ to [\d.,]+\), n = 3", text)
    assert seen.errors == []


def test_the_label_of_acceptance_shows_numerator_and_denominator(open_page):
    page, _ = open_page(report_of("whole"))
    assert re.search(
        r"always-v2: [\d.]+ .*; [\d,]+ tokens / [\d,]+ request-steps", hover(page, "acceptance", 0.02)
    )


def test_every_entry_of_the_contents_leads_to_its_heading(open_page):
    page, _ = open_page(report_of("whole"))
    links = page.locator("nav.toc a")
    assert links.count() == page.locator("main h2, main h3").count() > 5
    for i in range(links.count()):
        links.nth(i).click()
        anchor = links.nth(i).get_attribute("href").removeprefix("#")
        page.wait_for_function(
            """(id) => {
                const box = document.getElementById(id).getBoundingClientRect();
                return box.top >= -5 && box.bottom <= innerHeight;
            }""",
            arg=anchor,
        )


def test_c5_the_banner_of_a_failed_run_is_in_sight_with_the_finished_points(open_page):
    page, seen = open_page(report_of("failed"))
    banner = page.locator(".banner-failed")
    assert banner.is_visible()
    assert banner.inner_text().startswith("FAILED: the server ended with exit code 3")
    assert banner.bounding_box()["y"] < 900
    assert page.title().startswith("FAILED")
    assert page.locator('[data-table="points"] tbody td', has_text="finished").count() == 18
    assert (seen.requests, seen.errors) == ([], [])


def test_there_is_no_share_button(open_page):
    page, _ = open_page(report_of("whole"))
    titles = page.locator(".modebar-btn").evaluate_all(
        "(bs) => bs.map((b) => b.dataset.title ?? b.ariaLabel ?? '')"
    )
    assert any("Download" in t for t in titles)
    assert not [t for t in titles if re.search(r"share|cloud|edit", t, re.I)]
    assert page.get_by_text(re.compile("share chart", re.I)).count() == 0


def test_a_table_head_sorts_by_number_both_ways_and_missing_last(open_page):
    page, _ = open_page(report_of("whole"))
    heads = page.locator('[data-table="points"] thead th').all_inner_texts()
    (place,) = [i for i, head in enumerate(heads, start=1) if head.startswith("Accept length")]
    page.get_by_role("button", name="Accept length").click()

    def column():
        cells = page.locator(f'[data-table="points"] tbody tr td:nth-child({place})')
        return cells.evaluate_all("(cs) => cs.map((c) => c.dataset.value)")

    up = column()
    page.get_by_role("button", name="Accept length").click()
    down = column()
    for values, descending in ((up, False), (down, True)):
        known = [float(v) for v in values if v]
        assert known == sorted(known, reverse=descending)
        assert values[len(known) :] == [""] * (len(values) - len(known))
    assert "" in up


def test_the_bundle_draws_exactly_the_trace_types_on_record(open_page):
    page, _ = open_page(report_of("failed"))
    assert set(page.evaluate("Object.keys(Plotly.PlotSchema.get().traces)")) == bundle.trace_types()


def test_c16_a_missing_point_is_a_gap_in_the_line(open_page, exported):
    table = made_up_table(("none", "always-v2"), (1, 2, 8, 16, 64), drop=(("always-v2", 8),))
    page, _ = open_page(exported(simple(table), "gap"))
    traces = page.locator("#figure-throughput .scatterlayer .trace")
    pieces = traces.evaluate_all("(ts) => ts.map((t) => t.querySelectorAll('.js-line').length)")
    assert pieces == [1, 2]
    ticks = page.locator("#figure-throughput .xtick text").all_text_contents()
    assert ticks == ["1", "2", "8", "16", "64"]


def test_scripts_from_results_do_not_run(open_page, exported):
    planted = "<script>window.planted = 1</script><img src='data:,x' onerror='window.planted = 2' alt=''>"
    page, _ = open_page(exported(notebook(cell(html_output(planted))), "planted"))
    page.wait_for_timeout(300)
    assert page.evaluate("window.planted") is None


def test_printing_is_light_and_fits_the_paper(open_page):
    page, seen = open_page(report_of("failed"), theme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wait_drawn(page, "drawn-light")
    widths = page.locator("figure.plot .main-svg").evaluate_all("(s) => s.map((e) => e.clientWidth)")
    assert max(widths) <= 680
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    wait_drawn(page, "drawn-dark")
    assert len(page.pdf(format="A4")) > 20_000
    assert seen.errors == []


@pytest.mark.parametrize("width", [390, 768, 1360])
def test_no_screen_width_makes_the_page_scroll_sideways(open_page, width):
    page, _ = open_page(report_of("whole"), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


CUT = """(frames) => frames.map((f) => [f.querySelector('table').dataset.table, f.scrollWidth > f.clientWidth])"""
HINTED = """(frames) => frames.filter((f) => !f.previousElementSibling.hidden)
  .map((f) => f.querySelector('table').dataset.table)"""


@pytest.mark.parametrize("width", [1280, 1400])
def test_the_tables_of_a_crossing_page_fit(open_page, width):
    page, seen = open_page(crossing_report(), width=width)
    cut = dict(page.locator(".table-frame").evaluate_all(CUT))
    assert {"crossing-arms", "crossing-points"} <= set(cut)
    assert not any(cut.values())
    assert page.locator(".table-hint:visible").count() == 0
    assert seen.errors == []


@pytest.mark.parametrize("width", [390, 1280])
def test_a_table_that_is_cut_says_so_above_it(open_page, width):
    page, _ = open_page(report_of("whole"), width=width)
    cut = {name for name, wide in page.locator(".table-frame").evaluate_all(CUT) if wide}
    assert "points" in cut
    assert set(page.locator(".table-frame").evaluate_all(HINTED)) == cut
    assert page.locator(".table-hint:visible").first.inner_text().startswith("more columns to the right")
    # The words go when there is room: as on a screen where the frame is as wide as the table.
    page.locator(".table-frame").evaluate_all(
        "(fs) => { for (const f of fs) f.style.width = `${f.scrollWidth + 40}px`; }"
    )
    page.locator(".table-hint:visible").first.wait_for(state="hidden", timeout=10_000)


def test_a_browser_that_cannot_unpack_says_so_and_keeps_the_tables(open_page):
    page, seen = open_page(report_of("failed"), before="delete window.DecompressionStream", drawn=False)
    page.locator(".undrawn").first.wait_for()
    assert "needs DecompressionStream" in page.locator(".undrawn").first.inner_text()
    assert page.locator('[data-table="points"] tbody tr').count() == 48
    assert json.dumps(seen.requests) == "[]"


def test_without_scripts_the_page_says_what_is_missing(open_page):
    page, _ = open_page(report_of("failed"), drawn=False, java_script_enabled=False)
    assert page.locator("noscript .banner").is_visible()
    assert page.locator('[data-table="points"] tbody tr').count() == 48
