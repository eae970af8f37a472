"""Pages opened in a real Chromium with the network off: every request is refused and counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, Route

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT_MS = 60_000


@dataclass
class Seen:
    """What a page did: addresses it asked for besides itself, console errors and uncaught exceptions."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def wait_drawn(page: Page, state: str = "drawn") -> None:
    """Wait until the page says that all figures are drawn ("drawn-light", "drawn-dark", or either).

    A function, not an expression: the page's policy forbids eval, which an expression would need.
    """
    page.wait_for_function(
        "(state) => (document.documentElement.dataset.figures ?? '').startsWith(state)", arg=state
    )


@contextmanager
def opened(
    browser: Browser,
    path: Path,
    theme: str = "light",
    width: int = 1360,
    before: str | None = None,
    drawn: bool = True,
    **context_options,
) -> Iterator[tuple[Page, Seen]]:
    """A page opened from a file with the network off; `before` is a script that runs ahead of the page's."""
    context = browser.new_context(
        color_scheme=theme, offline=True, viewport={"width": width, "height": 900}, **context_options
    )
    seen, url = Seen(), path.resolve().as_uri()

    def refuse(route: Route) -> None:
        if route.request.url == url:
            route.continue_()
        else:
            seen.requests.append(route.request.url)
            route.abort()

    context.route("**/*", refuse)
    if before:
        context.add_init_script(before)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.on("console", lambda m: seen.errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: seen.errors.append(str(e)))
    page.goto(url)
    if drawn:
        wait_drawn(page)
    yield page, seen
    context.close()
