"""Output tokens per second: in the window, over the whole run, and the peak second.

Tokens are counted by arrival, whatever request they belong to and however that request ended: the server made
them. Stream events are never counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import Window


def tokens_in(records: Iterable[RequestRecord], window: Window) -> int:
    """Output tokens that arrived inside the window."""
    return sum(1 for r in records for t_s in r.token_times_s if window.holds(t_s))


def output_throughput(records: Iterable[RequestRecord], window: Window | None) -> float | None:
    """Tokens that arrived inside the window per second of window; None without a window."""
    if window is None or window.length_s <= 0:
        return None
    return tokens_in(records, window) / window.length_s


def whole_run_throughput(records: Sequence[RequestRecord]) -> float | None:
    """All output tokens over the time from the first request sent to the last one ended.

    Contains ramp-up and drain, so it is lower than the steady rate; shown beside it, not instead.
    """
    if not records:
        return None
    length_s = max(r.end_s for r in records) - min(r.sent_s for r in records)
    return sum(len(r.token_times_s) for r in records) / length_s if length_s > 0 else None


def per_second(records: Iterable[RequestRecord], window: Window, slices: int | None = None) -> list[float]:
    """Tokens per second in equal slices (default: of about one second) that cover the window exactly."""
    slices = slices or max(1, round(window.length_s))
    counts = [0] * slices
    for r in records:
        for t_s in r.token_times_s:
            if window.holds(t_s):
                position = int((t_s - window.start_s) / window.length_s * slices)
                counts[min(position, slices - 1)] += 1
    return [n * slices / window.length_s for n in counts]


def peak_throughput(records: Iterable[RequestRecord], window: Window | None) -> float | None:
    """The best slice of `per_second`. Never below the mean, because the slices cover the window."""
    if window is None or window.length_s <= 0:
        return None
    return max(per_second(records, window))
