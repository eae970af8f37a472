"""What the panel says in one line: the server at this moment, and its load."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from specswitch.load.background import Tally
from specswitch.widgets.samples import Sample


def span(kind: str, text: str) -> str:
    """Escaped text in a span of class `specswitch-<kind>`."""
    return f'<span class="specswitch-{kind}">{html.escape(text)}</span>'


def now(sample: Sample, state: Mapping[str, Any]) -> str:
    """Mode and numbers of this moment, the worker, and a batch table where one is in force."""
    rate = "-" if sample.tok_s is None else f"{sample.tok_s:,.0f}"
    length = "-" if sample.accept_length is None else f"{sample.accept_length:.2f}"
    parts = [
        f"mode {sample.mode or 'idle'}",
        f"batch {state.get('running_batch')}",
        f"{rate} tokens/s",
        f"accept length {length}",
        f"{state.get('switches') or 0} switches",
        str(state.get("worker_class")),
    ]
    if not state.get("dynamic"):
        parts.append("stock worker: it has no rule to change")
    if state.get("ranges"):
        parts.append(f"speculates at batches {state['ranges']}; moving the threshold replaces this table")
    return span("now", " · ".join(parts))


def load(tally: Tally) -> str:
    """Requests of the background load."""
    return span("load", f"in flight {tally.in_flight}, finished {tally.finished}, failed {tally.failed}")
