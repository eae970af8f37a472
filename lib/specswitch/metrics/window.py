"""Which part of a run counts: the steady window.

At the start all clients send at once, at the end the batch shrinks; neither is the load the point is named
after. In the steady window at least 95 % of the nominal requests are in flight: a closed loop finds it while it
runs (`load.closed_loop`), a closed batch from its records (`load.closed_batch`). Every windowed metric then
follows one rule: **an event counts if it happens inside the window** (a token arrives, a request ends, a step's
result is known).
"""

from __future__ import annotations

from collections.abc import Iterable
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
