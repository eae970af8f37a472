"""Which part of a run counts: the steady window, found from the records alone.

At the start all clients send at once, at the end the batch shrinks; neither is the load the point is named
after. The steady window is the longest time during which at least 95 % of the nominal requests were in
flight. Every windowed metric then follows one rule: **an event counts if it happens inside the window**
(a token arrives, a request ends, a step's result is known).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from specswitch.metrics.records import RequestRecord

STEADY_SHARE = 0.95
# A closed loop sends the next request a moment after one ends; such a dip is no loss of load.
BRIDGE_S = 0.1


class Window(NamedTuple):
    """Half-open interval [start_s, end_s) on CLOCK_MONOTONIC, seconds."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    def holds(self, t_s: float) -> bool:
        """Whether an event at `t_s` counts."""
        return self.start_s <= t_s < self.end_s


def in_flight_curve(records: Iterable[RequestRecord]) -> list[tuple[float, int]]:
    """Requests in flight as a step function: (time, number from this time on), times increasing."""
    changes: dict[float, int] = {}
    for r in records:
        changes[r.sent_s] = changes.get(r.sent_s, 0) + 1
        changes[r.end_s] = changes.get(r.end_s, 0) - 1
    curve: list[tuple[float, int]] = []
    level = 0
    for t_s in sorted(changes):
        level += changes[t_s]
        curve.append((t_s, level))
    return curve


def in_flight_max(records: Iterable[RequestRecord]) -> int | None:
    """Largest number of requests in flight at one time, None without records."""
    return max((level for _, level in in_flight_curve(records)), default=None)


def steady_window(
    records: Sequence[RequestRecord],
    concurrency: int,
    share: float = STEADY_SHARE,
    bridge_s: float = BRIDGE_S,
) -> Window | None:
    """The longest stretch with at least `share * concurrency` requests in flight.

    Dips shorter than `bridge_s` seconds are bridged. Where requests are marked as warm-up, the window begins
    no earlier than the first request that is not. None when the load never got there: too few requests for a
    plateau.
    """
    earliest = _measured_from(records)
    best: Window | None = None
    for stretch in _bridged(_stretches(records, share * concurrency), bridge_s):
        clipped = Window(max(stretch.start_s, earliest), stretch.end_s)
        if clipped.length_s > 0 and (best is None or clipped.length_s > best.length_s):
            best = clipped
    return best


def _measured_from(records: Sequence[RequestRecord]) -> float:
    if not any(r.warmup for r in records):
        return float("-inf")
    return min((r.sent_s for r in records if not r.warmup), default=float("inf"))


def _stretches(records: Sequence[RequestRecord], need: float) -> list[Window]:
    """Intervals with at least `need` in flight, in order, exactly as the curve has them."""
    found: list[Window] = []
    start: float | None = None
    for t_s, level in in_flight_curve(records):
        if level >= need and start is None:
            start = t_s
        elif level < need and start is not None:
            found.append(Window(start, t_s))
            start = None
    return found


def _bridged(stretches: Sequence[Window], bridge_s: float) -> list[Window]:
    """The same intervals, neighbours joined where the dip between them is shorter than `bridge_s`."""
    joined: list[Window] = []
    for stretch in stretches:
        if joined and stretch.start_s - joined[-1].end_s < bridge_s:
            joined[-1] = Window(joined[-1].start_s, stretch.end_s)
        else:
            joined.append(stretch)
    return joined
