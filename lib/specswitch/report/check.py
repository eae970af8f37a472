"""The report looks at itself before anyone else does. Each check is a function that names what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from specswitch.report import bundle
from specswitch.report.scrub import absolute_paths

MAX_BYTES = 1_500_000
_FETCHING = {"src", "srcset", "poster", "data", "background", "xlink:href"}
_CSS_FETCH = re.compile(r"@import\b|url\(\s*['\"]?(?!data:|#)", re.IGNORECASE)
_WIDGET_MARKS = (
    "application/vnd.jupyter.widget",
    "Error displaying widget",
    "HBox(children=",
    "VBox(children=",
)


class ReportCheckError(RuntimeError):
    """A check failed. `name` is the check's name; the message says what it found."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f"report check {name!r} failed: {found}")
        self.name = name


class Page(HTMLParser):
    """The parts of a report page that the checks ask about."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.size = len(html.encode("utf-8"))
        self.fetches: list[str] = []  # whatever a browser would request
        self.styles: list[str] = []
        self.bundles = 0
        self.plotly_scripts = 0
        self.figures: list[tuple[str, dict[str, Any]]] = []  # name, JSON
        self.words: list[str] = []  # text nodes and attribute values, scripts and styles left out
        self._inside: str | None = None
        self._figure: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        fetching = _FETCHING | ({"href"} if tag in ("link", "image", "use", "base") else set())
        for name, value in attributes.items():
            if name in fetching and not value.startswith(("data:", "#")):
                self.fetches.append(f"<{tag} {name}={value[:80]!r}>")
            if name == "style":
                self.styles.append(value)
            if tag != "meta":  # the policy's hashes look like paths
                self.words.append(value)
        if tag in ("iframe", "embed", "object"):
            self.fetches.append(f"<{tag}>")
        self._inside = None
        if tag == "figure":
            self._figure = attributes.get("data-figure")
        elif tag == "style":
            self._inside = "style"
        elif tag == "script":
            in_figure = self._figure is not None and attributes.get("type") == "application/json"
            self._inside = "figure" if in_figure else attributes.get("id") or "script"
            self.bundles += attributes.get("id") == "plotly-bundle"

    def handle_endtag(self, tag: str) -> None:
        self._inside = None
        if tag == "figure":
            self._figure = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words.append(data)
        elif self._inside == "style":
            self.styles.append(data)
        elif self._inside == "figure":
            assert self._figure is not None
            self.figures.append((self._figure, json.loads(data)))
            self.words.append(data)
        elif self._inside == "script":
            self.plotly_scripts += "plotly.js" in data


@dataclass(frozen=True, slots=True)
class Expected:
    """What a report must show: the names of its figures, in order."""

    figures: tuple[str, ...] = ()


def size(page: Page, _: Expected) -> str | None:
    """The file stays small."""
    return None if page.size < MAX_BYTES else f"{page.size:,} bytes, {MAX_BYTES:,} allowed"


def no_requests(page: Page, _: Expected) -> str | None:
    """Nothing in the page makes a browser fetch anything."""
    found = page.fetches + [s[:80] for s in page.styles if _CSS_FETCH.search(s)]
    return f"the page would request {found[0]}" if found else None


def one_bundle(page: Page, _: Expected) -> str | None:
    """Exactly one plotly, the compressed one."""
    if page.bundles == 1 and page.plotly_scripts == 0:
        return None
    return f"{page.bundles} compressed and {page.plotly_scripts} plain copies of plotly.js, expected 1 and 0"


def trace_types(page: Page, _: Expected) -> str | None:
    """Every trace type is in the bundle; an unknown one would leave empty axes without an error."""
    known = bundle.trace_types()
    for name, spec in page.figures:
        for kind in (trace.get("type", "scatter") for trace in spec["data"]):
            if kind not in known:
                return f"figure {name!r} has a {kind!r} trace, which the cartesian bundle cannot draw"
    return None


def figures(page: Page, expected: Expected) -> str | None:
    """The figures that the data allow are there, once each, with data in them."""
    names = tuple(name for name, _ in page.figures)
    if names != expected.figures:
        return f"the page shows {list(names)}, expected {list(expected.figures)}"
    empty = [name for name, spec in page.figures if not spec["data"]]
    return f"figure {empty[0]!r} has no data" if empty else None


def no_machine_paths(page: Page, _: Expected) -> str | None:
    """No absolute path, home folder or checkout of this machine."""
    found = [path for words in page.words for path in absolute_paths(words)]
    return f"the page contains {found[0]!r}" if found else None


def no_widgets(page: Page, _: Expected) -> str | None:
    """No widget view, which would be blank or broken outside the notebook."""
    found = [mark for mark in _WIDGET_MARKS for words in page.words if mark in words]
    return f"the page contains {found[0]!r}" if found else None


CHECKS: tuple[Callable[[Page, Expected], str | None], ...] = (
    size,
    no_requests,
    one_bundle,
    trace_types,
    figures,
    no_machine_paths,
    no_widgets,
)


def failures(html: str, expected: Expected) -> Iterator[ReportCheckError]:
    """Every failed check of a report page."""
    page = Page(html)
    for check in CHECKS:
        found = check(page, expected)
        if found is not None:
            yield ReportCheckError(check.__name__, found)


def check(html: str, expected: Expected) -> None:
    """Raise the first failed check, if any.

    Raises:
        ReportCheckError: with the name of the check.
    """
    for failure in failures(html, expected):
        raise failure
