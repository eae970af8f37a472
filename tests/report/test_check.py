"""Each self-check catches what it is for, on a page that passes otherwise."""

import pytest

from plots.tables import STATIC, made_up_table
from report.pages import cell, html_output, notebook, plain_figure, simple
from specswitch.plots.catalogue import drawable
from specswitch.report.check import CHECKS, Expected, ReportCheckError, check, failures
from specswitch.report.display import PLOTLY_MIMETYPE, mimebundle
from specswitch.report.export import to_html


@pytest.fixture(scope="module")
def good():
    return to_html(simple(), "A report")


EXPECTED = Expected(tuple(drawable(made_up_table(STATIC))))


def failed(html, expected=EXPECTED):
    return [failure.name for failure in failures(html, expected)]


def test_a_good_page_passes_every_check(good):
    check(good, EXPECTED)


@pytest.mark.parametrize(
    ("name", "put_in"),
    [
        ("size", "<!--" + "x" * 1_500_000 + "-->"),
        ("no_requests", '<script src="https://cdn.example/x.js"></script>'),
        ("no_requests", '<link rel="stylesheet" href="style.css">'),
        ("no_requests", '<img src="//example/x.png" alt="">'),
        ("no_requests", "<style>@import 'x.css';</style>"),
        ("no_requests", '<p style="background:url(http://example/x)">x</p>'),
        ("no_requests", "<iframe></iframe>"),
        ("one_bundle", '<script type="application/gzip+base64" id="plotly-bundle">QQ==</script>'),
        ("one_bundle", "<script>/** plotly.js (cartesian) */</script>"),
        ("no_machine_paths", "<p>written to /srv/runs/today/x.json</p>"),
        ("no_widgets", "<p>HBox(children=(Button(),))</p>"),
        ("no_widgets", '<script type="application/vnd.jupyter.widget-view+json">{}</script>'),
    ],
)
def test_a_planted_fault_is_named(good, name, put_in):
    html = good.replace("</main>", f"{put_in}</main>")
    assert failed(html) == [name]
    with pytest.raises(ReportCheckError, match=f"report check '{name}' failed") as caught:
        check(html, EXPECTED)
    assert caught.value.name == name


def test_links_and_inline_images_are_no_requests(good):
    harmless = '<p><a href="https://example.org/x">x</a><img src="data:image/png;base64,AA" alt=""></p>'
    assert failed(good.replace("</main>", f"{harmless}</main>")) == []


def test_a_missing_figure_is_noticed():
    html = to_html(simple(made_up_table(("always-v1", "always-v2"))), "A report")
    assert failed(html) == ["figures"]


def test_a_figure_without_data_is_noticed():
    figure = plain_figure("empty")
    figure.data = []
    assert failed(to_html(notebook(cell(mimebundle(figure))), "x"), Expected(("empty",))) == ["figures"]


def test_a_trace_type_outside_the_bundle_is_noticed():
    bundle = mimebundle(plain_figure("map"))
    bundle[PLOTLY_MIMETYPE]["data"][0]["type"] = "scatter3d"
    assert failed(to_html(notebook(cell(bundle)), "x"), Expected(("map",))) == ["trace_types"]


def test_a_path_inside_a_figure_is_noticed():
    figure = plain_figure("paths")
    figure.data[0].name = "/srv/models/tiny"
    assert failed(to_html(notebook(cell(mimebundle(figure))), "x"), Expected(("paths",))) == [
        "no_machine_paths"
    ]


def test_c14_twenty_figures_keep_one_plotly_and_a_small_page():
    names = [f"f{i}" for i in range(20)]
    html = to_html(notebook(*(cell(mimebundle(plain_figure(n))) for n in names)), "Twenty")
    assert failed(html, Expected(tuple(names))) == []
    assert len(html) < 1_000_000
    assert html.count("plotly.js") <= 2


def test_checks_have_distinct_names_and_say_what_they_are_for():
    assert len({c.__name__ for c in CHECKS}) == len(CHECKS)
    assert all(c.__doc__ for c in CHECKS)


def test_html_output_reaches_the_page_once(good):
    html = to_html(notebook(cell(html_output("<p>only once</p>"))), "x")
    assert html.count("only once") == 1
