"""TTFT, ITL, TPOT, E2E and queue delay, in milliseconds, as the serving benchmarks define them.

- TTFT: from sending the request to its first output token.
- ITL: time per output token after the first, **per token, not per chunk**: k tokens that arrive together
  after a gap g are k values of g / k. (Counting the gap once would make speculation look k times slower.)
- TPOT: per request, (last token - first token) / (tokens - 1).
- E2E: from sending to the end of the stream.
- Queue delay: how long the client itself held the request back; it is in none of the above.

All of them take only events inside the window (`window.py`); without a window, all events. Failed requests
give no latency.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import Window

Records = Iterable[RequestRecord]
MS = 1000.0


def _inside(t_s: float, window: Window | None) -> bool:
    return window is None or window.holds(t_s)


def ended_in(records: Records, window: Window | None) -> list[RequestRecord]:
    """Completed requests (outcome ok) that ended inside the window."""
    return [r for r in records if r.outcome == "ok" and _inside(r.end_s, window)]


def ttft_ms(records: Records, window: Window | None = None) -> list[float]:
    """One value per request whose first token arrived inside the window."""
    return [
        (r.token_times_s[0] - r.sent_s) * MS
        for r in records
        if r.outcome != "failed" and r.token_times_s and _inside(r.token_times_s[0], window)
    ]


def itl_ms(records: Records, window: Window | None = None) -> list[float]:
    """One value per output token after a request's first chunk that arrived inside the window."""
    values: list[float] = []
    for r in records:
        if r.outcome == "failed":
            continue
        chunks = _chunks(r.token_times_s)
        for (before, _), (now, size) in pairwise(chunks):
            if _inside(now, window):
                values += [(now - before) * MS / size] * size
    return values


def tpot_ms(records: Records, window: Window | None = None) -> list[float]:
    """One value per request that ended inside the window with at least two tokens."""
    return [
        (r.token_times_s[-1] - r.token_times_s[0]) * MS / (len(r.token_times_s) - 1)
        for r in ended_in(records, window)
        if len(r.token_times_s) > 1
    ]


def e2e_ms(records: Records, window: Window | None = None) -> list[float]:
    """One value per request that ended inside the window."""
    return [(r.end_s - r.sent_s) * MS for r in ended_in(records, window)]


def queue_delay_ms(records: Records, window: Window | None = None) -> list[float]:
    """Time between wanting to send and sending, one value per request sent inside the window."""
    return [(r.sent_s - r.scheduled_s) * MS for r in records if _inside(r.sent_s, window)]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Percentile of sorted values with linear interpolation; `share` in [0, 1]. Values must not be empty."""
    position = share * (len(ordered) - 1)
    low, high = math.floor(position), math.ceil(position)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """`{"mean", "p50", "p90", "p99"}`; each None when there is no value."""
    if not values:
        return {"mean": None, "p50": None, "p90": None, "p99": None}
    ordered = sorted(values)
    return {
        "mean": math.fsum(ordered) / len(ordered),
        "p50": percentile(ordered, 0.50),
        "p90": percentile(ordered, 0.90),
        "p99": percentile(ordered, 0.99),
    }


def _chunks(times_s: Sequence[float]) -> list[tuple[float, int]]:
    """(arrival time, tokens) of each chunk: tokens with one and the same time came together."""
    chunks: list[tuple[float, int]] = []
    for t_s in times_s:
        if chunks and chunks[-1][0] == t_s:
            chunks[-1] = (t_s, chunks[-1][1] + 1)
        else:
            chunks.append((t_s, 1))
    return chunks
