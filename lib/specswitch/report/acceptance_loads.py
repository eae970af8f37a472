"""Accept lengths that may stand beside each other: over the loads at which every verifying arm of a path verified.

Acceptance may depend on the load, and a dynamic arm verifies at few of them: counts over all of its own loads
would make it look better or worse than the arm that always verifies, for no reason of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from specswitch.plots.grid import Grid


@dataclass(frozen=True, slots=True)
class Verifying:
    """The verifying arms of one path in reading order, each with the concurrencies to pool its counts over.

    `shared`: those are the same for all of them; otherwise there is no common one, and each has its own.
    """

    path: str
    loads: dict[str, tuple[int, ...]]
    shared: bool


def verifying(grid: Grid) -> list[Verifying]:
    """One entry per path that has an arm with verify steps."""
    by_path: dict[str, dict[str, tuple[int, ...]]] = {}
    for label in grid.labels:
        own = tuple(c for c in grid.concurrencies if _verified(grid, label, c))
        if own:
            path = next((part for part in label.split("-") if part in ("v1", "v2")), label)
            by_path.setdefault(path, {})[label] = own
    found = []
    for path, own_loads in by_path.items():
        common = set.intersection(*map(set, own_loads.values()))
        loads = dict.fromkeys(own_loads, tuple(sorted(common))) if common else own_loads
        found.append(Verifying(path, loads, bool(common)))
    return found


def pooled(grid: Grid, label: str, column: str, loads: tuple[int, ...]) -> float | None:
    """A rate of an arm from its counts summed over these concurrencies and all repeats; None without any."""
    counts = [n for c in loads if (n := grid.counts(label, c, column)) is not None]
    den = sum(n[1] for n in counts)
    return sum(n[0] for n in counts) / den if den else None


def _verified(grid: Grid, label: str, concurrency: int) -> bool:
    counts = grid.counts(label, concurrency, "accept_length")
    return counts is not None and counts[1] > 0
