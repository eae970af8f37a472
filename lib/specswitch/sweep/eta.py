"""How long a run will take: servers to start and points to load, at an assumed pace or at the measured one.

A run that is resumed has a pace already, in the times of its folder; a run in progress measures its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from specswitch.load.crossing_plan import AnyPoint
from specswitch.results.layout import MANIFEST, POINT, POINTS, DamagedError, read_json
from specswitch.sweep.grid import launch_config
from specswitch.sweep.progress import OnProgress, Progress, in_words

# Fewer gaps between points than this tell no pace.
GAPS_NEEDED = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a server takes to get ready, and that a point takes beside its load (ramp, drain, flush)."""

    start_s: float
    extra_s: float
    measured: bool = False


# Seen with the bundled pair on two cores, and with an 8B model on one GPU; nobody knows yours before it ran.
ASSUMED = {"cpu": Pace(start_s=30.0, extra_s=2.0), "cuda": Pace(start_s=90.0, extra_s=2.0)}


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is still to do: `points` with `load_s` seconds of load each, `starts` of servers, at this pace."""

    points: int
    load_s: float
    starts: int
    pace: Pace

    @property
    def point_s(self) -> float:
        """Seconds of one point."""
        return self.load_s + self.pace.extra_s

    @property
    def total_s(self) -> float:
        """Seconds until the last point is stored."""
        return self.points * self.point_s + self.starts * self.pace.start_s

    def text(self) -> str:
        """One line: the estimate, and what it rests on."""
        if not self.points:
            return "Nothing is left to measure"
        pace = "measured in this run" if self.pace.measured else "assumed"
        return (
            f"About {in_words(self.total_s)}: {self.points} points of {self.point_s:.1f} s and {self.starts} server "
            f"starts of {self.pace.start_s:.0f} s ({pace})"
        )


def ahead(points: Sequence[AnyPoint], folder: Path, *, one_server: bool) -> Ahead:
    """What is left of these points, in this order, given what `folder` holds already.

    `one_server`: only one server is up at a time, so that each change of server is a start.
    """
    stored = {path.parent.name for path in (folder / POINTS).glob(f"*/{POINT}")}
    left = [p for p in points if p.point_id not in stored]
    load_s = fmean(p.load_s for p in left) if left else 0.0
    pace = measured_pace(folder, points) or ASSUMED[points[0].server.device]
    return Ahead(len(left), load_s, _starts(left, one_server), pace)


def measured_pace(folder: Path, points: Sequence[AnyPoint]) -> Pace | None:
    """The pace at which `folder` was filled, from the times of its files; None where they do not tell.

    Medians: a pause between two points is no pace. A copied folder has the times of its copying, which are
    too short for the load, and tells nothing.
    """
    load_s = {p.point_id: p.load_s for p in points}
    stored = (folder / POINTS).glob(f"*/{POINT}")
    done = sorted((p.stat().st_mtime, load_s[p.parent.name]) for p in stored if p.parent.name in load_s)
    try:
        manifest = read_json(folder / MANIFEST)
    except DamagedError:
        return None
    ready = [_seconds(server["launched_at"]) for server in manifest["servers"]]
    pauses = [_seconds(again["at"]) for again in manifest["resumed"]]
    extras: list[float] = []
    starts: list[float] = []
    for (before, _), (now, load) in pairwise(done):
        if any(before < p <= now for p in pauses):
            continue
        launched = sum(before < r <= now for r in ready)
        (starts if launched else extras).append((now - before - load) / max(1, launched))
    if len(extras) < GAPS_NEEDED or (extra_s := median(extras)) < 0:
        return None
    begun = _seconds(manifest["started_at"])
    first = [r - begun for r in sorted(ready)[:1]]
    start_s = median([*first, *(s - extra_s for s in starts)]) if first or starts else 0.0
    return Pace(max(start_s, 0.0), extra_s, measured=True)


def telling_time_left(
    tell: OnProgress, left: Ahead, clock: Callable[[], float] = time.monotonic
) -> OnProgress:
    """`tell`, with `left_s` added to all that is told; the pace is corrected by what is seen on the way."""
    estimate = _Estimate(left, clock)
    return lambda progress: tell(replace(progress, left_s=estimate.after(progress)))


class _Estimate:
    """Time left of a run in progress. `clock` in seconds."""

    def __init__(self, left: Ahead, clock: Callable[[], float]) -> None:
        self._left = left
        self._clock = clock
        self._last = Progress("done", 0, 0, "")
        self._last_s = clock()
        self._starts: list[float] = []
        self._extras: list[float] = []

    def after(self, progress: Progress) -> float:
        """Seconds left, now that this has been told."""
        now_s = self._clock()
        took_s = now_s - self._last_s
        starting = self._last.kind == "server"
        if progress.kind == "point" and starting:
            self._starts.append(took_s)
        elif progress.kind == "done" and starting:  # seen from outside: start and point in one
            self._starts.append(max(0.0, took_s - self._left.point_s))
        elif progress.kind == "done":
            self._extras.append(max(0.0, took_s - self._left.load_s))
        self._last, self._last_s = progress, now_s
        pace = self._left.pace
        start_s = fmean(self._starts) if self._starts else pace.start_s
        extra_s = fmean(self._extras) if self._extras else pace.extra_s
        self._left = replace(
            self._left,
            points=progress.total - progress.done,
            starts=max(0, self._left.starts - starting * (progress.kind != "server")),
            pace=replace(pace, start_s=start_s, extra_s=extra_s),
        )
        return self._left.total_s


def _starts(points: Iterable[AnyPoint], one_server: bool) -> int:
    keys = [launch_config(p.server).canonical() for p in points]
    if not one_server:
        return len(set(keys))
    return sum(a != b for a, b in pairwise(["", *keys]))


def _seconds(iso: str) -> float:
    """Seconds since the epoch of a time in the manifest."""
    return datetime.fromisoformat(iso).timestamp()
