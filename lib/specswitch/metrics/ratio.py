"""A rate that keeps its numerator and denominator, so that nobody has to guess what was divided by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """`num / den` of two counts. Undefined (value None) when nothing was counted, never 0 or NaN."""

    num: int
    den: int

    @property
    def value(self) -> float | None:
        """The quotient, None when the denominator is 0."""
        return self.num / self.den if self.den else None

    def as_dict(self) -> dict[str, int]:
        """`{"num", "den"}` for storing beside the value."""
        return {"num": self.num, "den": self.den}


def pooled(ratios: Iterable[Ratio]) -> Ratio:
    """One ratio of the summed numerators and denominators: every counted event weighs the same."""
    parts = list(ratios)
    return Ratio(sum(r.num for r in parts), sum(r.den for r in parts))
