"""The envelope: the better of "never speculate" and "always speculate" at a point, and how near we come.

The promise under test is envelope ratio >= 1 at every load. Values are output tokens per second, one per
repeat, index = repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from specswitch.metrics.intervals import CONFIDENCE, Interval, paired_ratio


def envelope(none: float | None, always: float | None) -> float | None:
    """max(none, always); None when either is missing, because half an envelope is no bound."""
    return None if none is None or always is None else max(none, always)


def envelope_ratio(dynamic: float | None, none: float | None, always: float | None) -> float | None:
    """dynamic / envelope; None when any of the three is missing or the envelope is 0."""
    bound = envelope(none, always)
    return None if dynamic is None or not bound else dynamic / bound


def envelope_ratio_interval(
    dynamic: Sequence[float],
    none: Sequence[float],
    always: Sequence[float],
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Envelope ratio over repeats with its interval; None when an arm has no value.

    The envelope is the static arm with the higher *mean*. Taking the maximum in each repeat would add the
    noise of both arms to the bound and make every ratio look too low. ValueError when the lengths differ.
    """
    if not (dynamic and none and always):
        return None
    if len(none) != len(always):
        raise ValueError(f"{len(none)} repeats of none but {len(always)} of always: pair them")
    better = none if fmean(none) >= fmean(always) else always
    return paired_ratio(dynamic, better, confidence)
