"""A real Chromium for the tests of this folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from browser.offline import FLAGS, Seen, opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs Chromium."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(
    scope="module"
)  # not "session": while Playwright runs, no test can have an event loop of its own
def chromium() -> Iterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(FLAGS), headless=True)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., tuple[Page, Seen]]]:
    """`open_page(path, theme=..., width=...)` -> the page and what it did; closed at the end of the test."""
    managers = []

    def start(path: Path, **options) -> tuple[Page, Seen]:
        manager = opened(chromium, path, **options)
        managers.append(manager)
        return manager.__enter__()

    yield start
    for manager in reversed(managers):
        manager.__exit__(None, None, None)
