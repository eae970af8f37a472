"""Small pieces of HTML, escaped once, here. Every piece reads well in JupyterLab, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape as _escape


@dataclass(frozen=True, slots=True)
class Cell:
    """One table cell: shown `text`, `sort` key (None: sorted by the text), CSS `kind`, e.g. "bad"."""

    text: str
    sort: float | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's head: name, unit below it, and whether its cells are numbers (right-aligned)."""

    name: str
    unit: str = ""
    number: bool = False


MISSING = Cell("–", kind="none")
# For JupyterLab, which has none of the page's style sheet: its columns of words shrink to the longest word there.
_STYLES = {"wrap": "min-width: 19em; text-align: left"}


_ARM = re.compile(r"\b(?:none-sync|none|(?:always|off|dynamic)-v\d(?:-\w+)*)\b")
_EQUALS = re.compile(r"\b([Cn]) = ")


def text(words: str) -> str:
    """Words as HTML: escaped; names of arms set off, so that they do not break, and no break in `C = 8`, `n = 3`."""
    return _EQUALS.sub("\\1\u00a0=\u00a0", _ARM.sub(r'<span class="arm">\g<0></span>', _escape(words)))


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph with an optional class."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def bullets(items: Sequence[str], kind: str = "") -> str:
    """An unordered list."""
    return f"<ul{_class(kind)}>" + "".join(f"<li>{text(i)}</li>" for i in items) + "</ul>"


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], name: str, sortable: bool = False
) -> str:
    """A table in a scrolling frame. The first cell of a row is its head. `name` goes into `data-table`."""
    heads = "".join(_head(column, sortable) for column in columns)
    body = "".join(
        "<tr>"
        + "".join(
            _cell(cell, column, first=i == 0)
            for i, (cell, column) in enumerate(zip(row, columns, strict=True))
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="table-frame" tabindex="0"><table data-table="{_escape(name)}">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _head(column: Column, sortable: bool) -> str:
    unit = f"<small>{_escape(column.unit)}</small>" if column.unit else ""
    head = f"<span>{_escape(column.name)}</span>{unit}"
    kind = _class("number" if column.number else "")
    if not sortable:
        return f'<th scope="col"{kind}>{head}</th>'
    return f'<th scope="col" aria-sort="none"{kind}><button type="button">{head}</button></th>'


def _cell(cell: Cell, column: Column, first: bool) -> str:
    kinds = " ".join(k for k in ("number" if column.number else "", cell.kind) if k)
    if cell is MISSING:
        value = ' data-value=""'
    else:
        value = "" if cell.sort is None else f' data-value="{cell.sort:.10g}"'
    style = f' style="{_STYLES[cell.kind]}"' if cell.kind in _STYLES else ""
    tag, scope = ("th", ' scope="row"') if first else ("td", "")
    return f"<{tag}{scope}{_class(kinds)}{style}{value}>{_escape(cell.text)}</{tag}>"


def _class(kind: str) -> str:
    return f' class="{_escape(kind)}"' if kind else ""
