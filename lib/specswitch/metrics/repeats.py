"""How many repeats it takes to see a small difference, from the spread of those that were made.

The question of a paired t test on the logarithms of ratios, as the intervals of `intervals.py` answer it: with
how many pairs does a true ratio of 1 + `effect` leave an interval without 1 in it, in `power` of all cases?
"""

from __future__ import annotations

import math

from scipy.special import nctdtr, stdtrit  # all of scipy.stats takes a second to import

from specswitch.metrics.intervals import CONFIDENCE, Interval

EFFECT = 0.03
POWER = 0.8
# Nobody repeats a point more often than this; and the search has an end.
MOST = 1000


def log_spread(ratio: Interval, confidence: float = CONFIDENCE) -> float | None:
    """Standard deviation of the logarithms of the single ratios behind an interval of `paired_ratio`.

    None when the interval has no ends (fewer than two pairs).
    """
    if ratio.high is None:
        return None
    quantile = float(stdtrit(ratio.n - 1, (1 + confidence) / 2))
    return math.log(ratio.high / ratio.mean) * math.sqrt(ratio.n) / quantile


def power(repeats: int, spread: float, effect: float = EFFECT, confidence: float = CONFIDENCE) -> float:
    """Chance that the interval over `repeats` (>= 2) pairs leaves out 1 when the true ratio is 1 + `effect`.

    `spread` > 0: standard deviation of the logarithms of single ratios.
    """
    df = repeats - 1
    shift = math.log1p(effect) / spread * math.sqrt(repeats)
    critical = float(stdtrit(df, (1 + confidence) / 2))
    return 1 - _below(critical, df, shift) + _below(-critical, df, shift)


def repeats_needed(
    spread: float, effect: float = EFFECT, wanted: float = POWER, confidence: float = CONFIDENCE
) -> int | None:
    """The smallest number of repeats whose `power` reaches `wanted`, at least 2; None above `MOST`.

    An estimate: `spread` itself comes from few repeats.
    """
    if spread == 0:
        return 2
    low, high = 1, 2
    while power(high, spread, effect, confidence) < wanted:
        if high >= MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        if power(middle, spread, effect, confidence) < wanted:
            low = middle
        else:
            high = middle
    return high


def _below(t: float, df: int, shift: float) -> float:
    """Noncentral t distribution function. Where it is too near 0 for a float, scipy has NaN: 0."""
    chance = float(nctdtr(df, shift, t))
    return 0.0 if math.isnan(chance) else chance
