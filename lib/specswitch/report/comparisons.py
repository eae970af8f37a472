"""Every comparison of throughput that the figures make, as a table: ratio, interval, verdict, repeats needed.

Which repeats would do is estimated from the spread of those that were made (`metrics.repeats`).
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from specswitch.metrics.intervals import Interval, says_ratio
from specswitch.metrics.repeats import EFFECT, MOST, POWER, log_spread, repeats_needed
from specswitch.plots.best_dynamic import bests, rivals
from specswitch.plots.figure import number, unknown
from specswitch.plots.grid import Grid, Series
from specswitch.plots.switching import envelope_series
from specswitch.plots.throughput import baseline_of, ratios
from specswitch.report.findings import VERDICTS, verdict
from specswitch.report.html import MISSING, Cell, Column, table

COLUMNS = (
    Column("Arm"),
    Column("Against"),
    Column("C", number=True),
    Column("Ratio", "of tokens/s", True),
    Column("From", "95 % interval", True),
    Column("To", "95 % interval", True),
    Column("Verdict"),
    Column("Repeats", "made", True),
    Column("Repeats", f"to tell {EFFECT:.0%} apart", True),
)
NOTE = (
    f"Repeats to tell {EFFECT:.0%} apart: about how many it takes, at the spread measured here, for a true difference "
    f"of {EFFECT:.0%} to leave an interval without 1 in it in {POWER:.0%} of all runs. From few repeats the spread is "
    "itself uncertain, so take it as an order of magnitude."
)
_KINDS = dict(zip(VERDICTS, ("good", "bad", ""), strict=True))


@dataclass(frozen=True, slots=True)
class Compared:
    """One arm against another, or against the envelope, at one concurrency, paired by repeat."""

    label: str
    against: str
    concurrency: int
    ratio: Interval

    @property
    def needed(self) -> int | None:
        """Repeats to see `EFFECT`; None where there is one repeat only, `MOST` + 1 where no number will do."""
        spread = log_spread(self.ratio)
        return None if spread is None else repeats_needed(spread) or MOST + 1


def comparisons(points: pd.DataFrame) -> list[Compared]:
    """Each arm against its fair baseline, each dynamic one against the envelope and the best dynamic one.

    Wherever both have a value.
    """
    grid = Grid(points)
    fair = [(s, other) for s, other in ratios(grid) if other == baseline_of(s.label, grid.labels)]
    found = []
    for series, other in [*fair, *((s, "envelope") for s in envelope_series(grid))]:
        found += _of(series, other)
    for labels in rivals(grid).values():
        for best in bests(grid, labels):
            known = ((label, ratio) for label, ratio in best.others.items() if ratio is not None)
            found += [Compared(label, best.label, best.concurrency, ratio) for label, ratio in known]
    return found


def comparison_table(points: pd.DataFrame) -> str:
    """One row per comparison, sortable; a dash where one repeat tells nothing."""
    return table(COLUMNS, [_row(c) for c in comparisons(points)], "comparisons", sortable=True)


def needed_words(points: pd.DataFrame) -> list[str]:
    """One sentence: by concurrency, the repeats that its most scattered comparison needs."""
    found = comparisons(points)
    if not found:
        return ["No two arms that could be compared have a value at the same concurrency."]
    worst: dict[int, int] = {}
    for c in found:
        if c.needed is not None:
            worst[c.concurrency] = max(c.needed, worst.get(c.concurrency, 0))
    if not worst:
        return [f"Two repeats at least are needed to tell how many it takes to tell {EFFECT:.0%} apart."]
    parts = [f"{_repeats(n)} at C = {c}" for c, n in sorted(worst.items())]
    made = points["repeat"].nunique()
    return [
        f"To tell {EFFECT:.0%} apart in every comparison, you would need about this many repeats: "
        f"{', '.join(parts)}. This run has {made}."
    ]


def _of(series: Series, other: str) -> list[Compared]:
    pairs = zip(series.x, series.points, strict=True)
    return [Compared(series.label, other, c, p) for c, p in pairs if p is not None]


def _row(c: Compared) -> list[Cell]:
    head = [Cell(c.label), Cell(c.against), Cell(f"{c.concurrency:,}", sort=c.concurrency)]
    made = Cell(f"{c.ratio.n:,}", sort=c.ratio.n)
    if c.ratio.low is None or c.ratio.high is None or c.needed is None:
        told = Cell("one repeat tells nothing", kind="none")
        return [*head, _number(c.ratio.mean), MISSING, MISSING, told, made, MISSING]
    needed = Cell(_repeats(c.needed), sort=c.needed)
    if not says_ratio(c.ratio):
        return [*head, MISSING, MISSING, MISSING, Cell(unknown(c.ratio), kind="none"), made, needed]
    said = verdict(c.ratio)
    told = Cell(said.removesuffix(" from").removesuffix(" than"), kind=_KINDS[said])
    numbers = [_number(v) for v in (c.ratio.mean, c.ratio.low, c.ratio.high)]
    return [*head, *numbers, told, made, needed]


def _number(value: float) -> Cell:
    return Cell(number(value), sort=value)


def _repeats(needed: int) -> str:
    return f"more than {MOST:,}" if needed > MOST else f"{needed:,}"
