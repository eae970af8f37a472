"""Does a server's memory grow with the requests that it has served? Samples, and a slope with its interval.

Resident memory, seen from outside: whatever is kept counts, be it a list, a tensor or garbage not yet collected. So
does the free memory that an allocator keeps for later, some 10 MiB that come and go; see `plan.STEADY_HEAP`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal, NamedTuple

import psutil
from scipy.special import stdtrit

from specswitch.metrics.intervals import CONFIDENCE

SAMPLE_S = 1.0
LIMIT_MIB = 2.0  # per 1000 requests
WARM_UP_SHARE = 0.25
WARM_UP_REQUESTS = 2000  # by then the server's bounded records are full and its buffers have been touched
BLOCKS = 20
FEWEST = 3 * BLOCKS


class Sample(NamedTuple):
    """Resident memory of a server's processes, by name, after so many requests were over."""

    requests: int
    by_process: dict[str, float]

    @property
    def mib(self) -> float:
        """Of all processes together."""
        return sum(self.by_process.values())


@dataclass(frozen=True, slots=True)
class Growth:
    """MiB per 1000 requests, with a 95 % interval, against `limit`; the numbers are None with too few samples.

    `verdict`: `flat` when the whole interval is below the limit, `grows` when all of it is above, else
    `undecided`. `first_mib`, `last_mib`: means of the first and the last block that the slope is made of.
    `by_process`: the slopes of the processes that lived all the time, which say where to look.
    """

    verdict: Literal["flat", "grows", "undecided"]
    slope: float | None
    low: float | None
    high: float | None
    limit: float
    first_mib: float | None
    last_mib: float | None
    samples: int
    by_process: dict[str, float] = field(default_factory=dict)


def resident_mib(pid: int) -> dict[str, float]:
    """Resident memory of a process and all below it, MiB by name; pages that they share count for each.

    Processes of the same name are added up. Raises psutil.NoSuchProcess.
    """
    root = psutil.Process(pid)
    found = {root.name(): root.memory_info().rss / 2**20}
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile
            name = child.name()
            found[name] = found.get(name, 0.0) + child.memory_info().rss / 2**20
    return found


def growth(samples: Sequence[Sample], limit: float = LIMIT_MIB) -> Growth:
    """The slope of memory over requests, after a quarter of the samples and 2000 requests as warm-up.

    A line through the means of 20 blocks: single samples, a second apart, are not independent of each other.
    """
    kept = [s for s in samples[int(len(samples) * WARM_UP_SHARE) :] if s.requests >= WARM_UP_REQUESTS]
    blocks = [kept[len(kept) * i // BLOCKS : len(kept) * (i + 1) // BLOCKS] for i in range(BLOCKS)]
    if len(kept) < FEWEST or kept[0].requests == kept[-1].requests:
        return Growth("undecided", None, None, None, limit, None, None, len(samples))
    x = [fmean(s.requests for s in block) / 1000 for block in blocks]
    y = [fmean(s.mib for s in block) for block in blocks]
    slope, half = _line(x, y)
    names = [name for name in kept[0].by_process if all(name in s.by_process for s in kept)]
    by_process = {
        name: _line(x, [fmean(s.by_process[name] for s in block) for block in blocks])[0] for name in names
    }
    verdict: Literal["flat", "grows", "undecided"] = "undecided"
    if slope + half < limit:
        verdict = "flat"
    elif slope - half > limit:
        verdict = "grows"
    return Growth(verdict, slope, slope - half, slope + half, limit, y[0], y[-1], len(samples), by_process)


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Slope of the least-squares line, and half the width of its interval."""
    x_mean, y_mean = fmean(x), fmean(y)
    spread = sum((v - x_mean) ** 2 for v in x)
    slope = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / spread
    left = sum((b - y_mean - slope * (a - x_mean)) ** 2 for a, b in zip(x, y, strict=True))
    degrees = len(x) - 2
    error = math.sqrt(left / degrees / spread)
    return slope, float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
