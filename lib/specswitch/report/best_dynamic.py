"""Which dynamic arm is best at which load, in sentences and as a table, and whether that is told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from specswitch.metrics.intervals import Interval
from specswitch.plots.best_dynamic import Best, bests, rivals
from specswitch.plots.figure import TIMES, known, number
from specswitch.plots.grid import Grid
from specswitch.report.findings import NOT_KNOWN_AGAINST, VERDICTS, places, verdict
from specswitch.report.html import MISSING, Cell, Column, table

NOTE = (
    "Throughput over that of the best dynamic arm at the same load, as in the figure above; the intervals are in the "
    "table under “How sure is that?”. Slower: told apart from the best. Not told apart: not distinguishable from it. "
    "Arms whose thresholds all lie above a load, or all below it, make the same steps there: what differs between them "
    "is noise."
)


def sentences(points: pd.DataFrame) -> list[str]:
    """For each path with several dynamic arms: which is best where, told apart from which; and which will do."""
    grid = Grid(points)
    found = []
    for path, labels in rivals(grid).items():
        best = bests(grid, labels)
        for label in labels:
            won = [b for b in best if b.label == label]
            if won:
                at = places([b.concurrency for b in won], grid.concurrencies)
                told = "; ".join(_told(won, grid.concurrencies))
                found.append(
                    f"Of the dynamic arms on {path}, {label} makes the most tokens/s at {at}: {told}."
                )
        if best:
            found.append(_will_do(path, labels, best))
    return found


def best_table(points: pd.DataFrame) -> str:
    """One row per load, one column per dynamic arm, a table per path; "" without two arms that can be paired."""
    grid = Grid(points)
    tables = []
    for path, labels in rivals(grid).items():
        rows = [
            [Cell(f"{b.concurrency:,}"), *(_cell(b, label) for label in labels)] for b in bests(grid, labels)
        ]
        if rows:
            columns = [Column("C", number=True), *(Column(label, number=True) for label in labels)]
            tables.append(table(columns, rows, f"best-dynamic-{path}"))
    return "".join(tables)


def _told(won: Sequence[Best], concurrencies: Sequence[int]) -> list[str]:
    """What is known of one arm's lead: grouped by the arms that it cannot be told from."""
    groups: dict[str, list[int]] = {}
    for best in won:
        ratios = {label: ratio for label, ratio in best.others.items() if ratio is not None}
        if any(ratio.low is None for ratio in ratios.values()):
            words = "not to be told from the others yet, with one repeat,"
        else:
            words = _apart(ratios)
        groups.setdefault(words, []).append(best.concurrency)
    return [f"{words} at {places(at, concurrencies)}" for words, at in groups.items()]


def _apart(ratios: Mapping[str, Interval]) -> str:
    """What the intervals of the other arms' ratios to the best say, in the words of the table."""
    open_ = {label: known(ratio, TIMES) for label, ratio in ratios.items() if not _slower(ratio)}
    parts = [
        f"{words} {_list(labels)}"
        for words, wanted in ((VERDICTS[2], True), (NOT_KNOWN_AGAINST, False))
        if (labels := [label for label, is_known in open_.items() if is_known is wanted])
    ]
    return " and ".join(parts) or "told apart from every other"


def _will_do(path: str, labels: Sequence[str], best: Sequence[Best]) -> str:
    """The arms that are nowhere told to be slower than the best: those that one may choose for all loads."""
    slower = {
        label for b in best for label, ratio in b.others.items() if ratio is not None and _slower(ratio)
    }
    fine = [label for label in labels if label not in slower]
    loads = "at any load" if len(best) > 1 else f"at C = {best[0].concurrency}"
    if len(fine) == len(labels):
        return (
            f"On {path}, no dynamic arm can be called slower than the best {loads}: "
            "this run gives no reason to prefer one."
        )
    if not fine:
        return f"Each dynamic arm on {path} is told to be slower than the best one at some load."
    return f"On {path}, not told to be slower than the best dynamic arm {loads}: {_list(fine)}."


def _cell(best: Best, label: str) -> Cell:
    if label == best.label:
        sure = all(ratio is None or ratio.low is not None for ratio in best.others.values())
        return Cell("best", kind="good" if sure else "none")
    ratio = best.others[label]
    if ratio is None:
        return MISSING
    if ratio.low is None:
        return Cell(f"{number(ratio.mean)}{TIMES}, one repeat", kind="none")
    if not known(ratio, TIMES):
        return Cell("not known", kind="none")
    told = "slower" if _slower(ratio) else "not told apart"
    return Cell(f"{number(ratio.mean)}{TIMES} {told}", kind="bad" if told == "slower" else "")


def _slower(ratio: Interval) -> bool:
    return ratio.low is not None and verdict(ratio) == VERDICTS[1]


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
