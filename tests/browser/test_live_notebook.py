"""The live notebook in JupyterLab, as a user has it: run all, move the threshold, see mode and figure follow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from browser.lab import jupyter_lab, run_all
from specswitch.config import project_root
from specswitch.serving import control
from widgets.support import DYNAMIC_V2, fake_live

TIMEOUT_MS = 90_000
NEWEST = "(trace) => document.querySelector('.js-plotly-plot')?.data?.[trace]?.y?.at(-1)"
BATCH, THRESHOLD, SHARE, LENGTH = range(4)
PATH = ".js-plotly-plot .scatterlayer .js-line"


@pytest.fixture
def server() -> Iterator[str]:
    """A fake server that never speculates (threshold 0), so that the mode does not hang on who ends when."""
    with fake_live(*DYNAMIC_V2) as url:
        control.set_rule(url, threshold=0)
        yield url


@pytest.fixture
def lab(tmp_path: Path, server: str) -> Iterator[str]:
    """JupyterLab on a copy of the notebook that attaches to the fake server, with eight requests in flight."""
    notebook = json.loads((project_root() / "notebooks" / "04-live.ipynb").read_text(encoding="utf-8"))
    cell = next(c for c in notebook["cells"] if "parameters" in c["metadata"].get("tags", []))
    text = "".join(cell["source"]).replace("url = None", f'url = "{server}"')
    cell["source"] = text.replace("concurrency = 2", "concurrency = 8")
    (tmp_path / "live.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with jupyter_lab(tmp_path) as url:
        yield url


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that may talk to this machine only."""
    context = chromium.new_context(viewport={"width": 1400, "height": 1600})
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    outside: list[str] = []

    def only_here(route: Route) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            outside.append(route.request.url)
            route.abort()

    context.route("**/*", only_here)
    yield page
    context.close()
    assert outside == []


def wait_newest(page: Page, trace: int, value: float | None) -> None:
    """Wait until the newest point of a trace, as the browser has it, is this."""
    page.wait_for_function(f"(want) => (({NEWEST})(want[0]) ?? null) === want[1]", arg=[trace, value])


def test_the_threshold_slider_changes_the_mode_and_the_figure(lab: str, page: Page, server: str) -> None:
    run_all(page, f"{lab}/lab/tree/live.ipynb")
    now = page.locator(".specswitch-now")
    now.filter(has_text="mode plain").wait_for()
    wait_newest(page, BATCH, 8)
    wait_newest(page, SHARE, 0)
    wait_newest(page, LENGTH, None)
    page.wait_for_function(f"() => document.querySelectorAll('{PATH}').length >= 4")

    slider = page.locator(".widget-hslider", has_text="threshold")
    handle = slider.locator(".noUi-handle")
    for _ in range(9):
        handle.press("ArrowRight")
    now.filter(has_text="mode speculative").wait_for()
    assert slider.locator(".widget-readout").inner_text() == "9"
    assert control.read_state(server)["threshold"] == 9
    wait_newest(page, THRESHOLD, 9)
    wait_newest(page, SHARE, 1)
    wait_newest(page, LENGTH, 2)
    before = page.locator(PATH).nth(0).get_attribute("d")
    page.wait_for_function(f"(old) => document.querySelector('{PATH}').getAttribute('d') !== old", arg=before)
    assert "dynamic-v2-t9-lazy" in page.locator("textarea").nth(0).input_value()

    page.get_by_role("button", name="Stop", exact=True).click()
    page.locator(".specswitch-status", has_text="Stopped").wait_for()
    assert page.get_by_role("button", name="Attach").is_enabled()
    assert page.locator(".specswitch-error").count() == 0
    assert page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
