"""What stands between the table and a figure: arms in order, one interval per concurrency, gaps as None.

A table has one row per measured point, with at least the columns `label` (the arm's short name),
`concurrency`, `repeat`, and the numbers of a point flattened by name (`output_tok_s`, `ttft_ms_p99`, ...).
A row whose `status` is not "finished" carries no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from specswitch.metrics.envelope import envelope_ratio_interval
from specswitch.metrics.intervals import Interval, mean_interval, paired_ratio
from specswitch.plots.theme import arm_order
from specswitch.results.tables import FINISHED


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a figure: `points[i]` is the interval at concurrency `x[i]`, None for a gap; x increases.

    `label` is the arm, which decides the style; `name` is what the legend says. `ran`: concurrencies at
    which the arm has a finished point, whether or not it has a value here.
    """

    label: str
    name: str
    x: tuple[int, ...]
    points: tuple[Interval | None, ...]
    ran: frozenset[int]

    @property
    def drawable(self) -> bool:
        """Whether there is anything to draw."""
        return any(p is not None for p in self.points)

    @property
    def gaps(self) -> list[int]:
        """Concurrencies without a point."""
        return [c for c, p in zip(self.x, self.points, strict=True) if p is None]

    @property
    def zeros(self) -> list[int]:
        """Concurrencies whose mean is 0, which a logarithmic axis cannot show."""
        return [c for c, p in zip(self.x, self.points, strict=True) if p is not None and p.mean <= 0]

    def positive(self) -> Series:
        """The same series with a gap where the mean is 0."""
        points = tuple(p if p is not None and p.mean > 0 else None for p in self.points)
        return replace(self, points=points)

    @property
    def singles(self) -> list[int]:
        """Concurrencies whose point rests on one repeat and so has no interval."""
        return [c for c, p in zip(self.x, self.points, strict=True) if p is not None and p.low is None]


class Grid:
    """The table by arm, concurrency and repeat.

    `labels`: arm labels, none first and dynamic last; `concurrencies`: increasing. Both over all rows, so
    that a point that failed leaves a visible gap.

    Raises:
        ValueError: a concurrency or repeat is no whole number, or two finished rows share a cell.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.labels = labels_of(table)
        self.concurrencies = tuple(sorted({_whole(c, "concurrency") for c in table["concurrency"]}))
        self._cells: dict[tuple[str, int], dict[int, dict[str, object]]] = {}
        for row in table.to_dict("records"):
            if row.get("status", FINISHED) != FINISHED:
                continue
            label, at = str(row["label"]), _whole(row["concurrency"], "concurrency")
            repeat = _whole(row["repeat"], "repeat")
            cell = self._cells.setdefault((label, at), {})
            if repeat in cell:
                raise ValueError(
                    f"two rows for {label} at C = {at}, repeat {repeat}: draw one workload at a time"
                )
            cell[repeat] = row

    def by_repeat(self, label: str, concurrency: int, column: str) -> dict[int, float]:
        """repeat -> value of `column` in one cell, in repeat order, missing values left out."""
        cell = self._cells.get((label, concurrency), {})
        values = {repeat: cell[repeat].get(column) for repeat in sorted(cell)}
        return {repeat: float(v) for repeat, v in values.items() if exists(v)}  # type: ignore[arg-type]

    def paired(self, labels: Sequence[str], concurrency: int, column: str) -> list[list[float]]:
        """Values of several arms in one column, for the repeats that all of them have, in repeat order."""
        values = [self.by_repeat(label, concurrency, column) for label in labels]
        common = sorted(set.intersection(*(set(v) for v in values)))
        return [[v[repeat] for repeat in common] for v in values]

    def series(self, label: str, at: Callable[[int], Interval | None], name: str | None = None) -> Series:
        """A series from a function of the concurrency."""
        ran = frozenset(c for c in self.concurrencies if (label, c) in self._cells)
        return Series(label, name or label, self.concurrencies, tuple(map(at, self.concurrencies)), ran)

    def mean(self, label: str, column: str) -> Series:
        """Mean of `column` over repeats with its t interval."""
        return self.series(label, lambda c: mean_interval(list(self.by_repeat(label, c, column).values())))

    def ratio(self, label: str, baseline: str, column: str) -> Series:
        """Geometric mean of the per-repeat ratios `label` / `baseline` with its interval."""

        def at(concurrency: int) -> Interval | None:
            return positive_ratio(*self.paired([label, baseline], concurrency, column))

        return self.series(label, at, f"{label} / {baseline}")

    def envelope_ratio(self, label: str, none: str, always: str, column: str) -> Series:
        """Ratio of `label` to the static arm (`none` or `always`) with the higher mean, paired by repeat.

        None where one of the three is missing or without output.
        """

        def at(concurrency: int) -> Interval | None:
            ours, never, ever = self.paired([label, none, always], concurrency, column)
            if not ours or min(*ours, *never, *ever) <= 0:
                return None
            return envelope_ratio_interval(ours, never, ever)

        return self.series(label, at)

    def counts(self, label: str, concurrency: int, column: str) -> tuple[int, int] | None:
        """Numerator and denominator of a rate, summed over repeats (`<column>_num`, `<column>_den`)."""
        num, den = (self.by_repeat(label, concurrency, f"{column}_{part}") for part in ("num", "den"))
        return (int(sum(num.values())), int(sum(den.values()))) if num and den else None


def labels_of(table: pd.DataFrame) -> list[str]:
    """The arms of a table, each once, in reading order: none first, dynamic last."""
    return sorted({str(label) for label in table["label"]}, key=arm_order)


def positive_ratio(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """`paired_ratio`; None without pairs or where a value is 0 (no output, no speed-up)."""
    return paired_ratio(a, b) if a and min(*a, *b) > 0 else None


def exists(value: object) -> bool:
    """Whether a table cell holds a value; pandas writes a missing one as None, NaN or NA."""
    return value is not None and value is not pd.NA and not (isinstance(value, float) and math.isnan(value))


def _whole(value: object, column: str) -> int:
    """The value as an int; text of a whole number is taken, too."""
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise ValueError(f"{column} {value!r} is no whole number: repair the table")
    return int(number)
