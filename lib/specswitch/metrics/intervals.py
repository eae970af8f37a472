"""95 % intervals over repeats: a mean, a paired ratio. Student's t.

A bare single run is no result: with one value the interval is undefined and its ends are None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit  # Student's quantile; all of scipy.stats takes a second to import

CONFIDENCE = 0.95
# A ratio of which an interval leaves more than this factor open, 1 in the middle of it, is not known.
OPEN_FACTOR = 4.0


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of `n` values and its confidence interval. `low` and `high` are None when n < 2."""

    mean: float
    low: float | None
    high: float | None
    n: int


def says_size(interval: Interval, small: float = 0.0) -> bool:
    """Whether the interval says how large the mean is: half of it is no wider than the mean is large.

    `small`: a half-width that says enough of any mean, in the mean's own unit. False without an interval.
    """
    if interval.low is None or interval.high is None:
        return False
    return (interval.high - interval.low) / 2 <= max(abs(interval.mean), small)


def says_ratio(ratio: Interval) -> bool:
    """Whether the interval of a ratio says anything: it leaves out 1, or spans at most `OPEN_FACTOR`.

    False without an interval.
    """
    if ratio.low is None or ratio.high is None:
        return False
    if ratio.low > 1 or ratio.high < 1:
        return True
    return ratio.low > 0 and ratio.high / ratio.low <= OPEN_FACTOR


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Mean with a t interval; None without values. Values in any unit, one per repeat."""
    if not values:
        return None
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None, 1)
    quantile = float(stdtrit(len(values) - 1, (1 + confidence) / 2))
    half = quantile * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Geometric mean of a[i] / b[i] with its interval (t on the logarithms); i is the repeat.

    Raises ValueError when the lengths differ or a value is not positive: a ratio of rates needs both.
    """
    if any(v <= 0 for v in (*a, *b)):
        raise ValueError(f"a ratio needs positive values, got {list(a)} and {list(b)}")
    logs = mean_interval([math.log(x / y) for x, y in zip(a, b, strict=True)], confidence)
    if logs is None:
        return None
    low = None if logs.low is None else math.exp(logs.low)
    high = None if logs.high is None else math.exp(logs.high)
    return Interval(math.exp(logs.mean), low, high, logs.n)
