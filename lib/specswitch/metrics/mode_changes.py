"""Where the mode of the decode steps changed under running requests, and what each change cost.

A change after an idle phase (the step has no `step_ms`) is none here: no request lived through it. The usual
time of a step is the median of undisturbed steps of the same mode and batch size, since a step's time grows
with its batch. `step_ms` is the time between two results: a prefill that ran in between is in it, and a rising
load always brings one, so the cost of switching to plain holds the admission of the requests that caused it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from specswitch.metrics.records import Mode, StepRecord

Steps = Sequence[StepRecord]
# Steps on either side of a change that belong to it.
REACH = 4
# A median of fewer steps is no usual time.
MIN_STEPS = 5


@dataclass(frozen=True, slots=True)
class ModeChange:
    """One change of mode.

    `t_s`: when the first step of the new mode was done; `to`: the new mode; `batch`: of that step.
    `relative[i]`: time of step i - reach, counted from that step, over the usual time of such a step; None
    where there is no such step, it belongs to another change, or no usual time is known. `cost_ms`: what the
    first `reach` steps of the new mode took beyond their usual times; `cost_steps`: the same in usual steps.
    """

    t_s: float
    to: Mode
    batch: int
    relative: tuple[float | None, ...]
    cost_ms: float | None
    cost_steps: float | None


def change_indices(steps: Steps) -> list[int]:
    """Positions of the steps that have another mode than the step before, idle phases left out."""
    return [
        i for i in range(1, len(steps)) if steps[i].mode != steps[i - 1].mode and steps[i].step_ms is not None
    ]


def mode_changes(steps: Steps, reach: int = REACH) -> list[ModeChange]:
    """Every change of mode in these consecutive steps of one server, with `reach` steps on either side."""
    at = change_indices(steps)
    usual = UsualStep(steps, at, reach)
    found = []
    for place, i in enumerate(at):
        first = at[place - 1] if place else 0
        end = at[place + 1] if place + 1 < len(at) else len(steps)
        relative = [
            _ratio(steps[j].step_ms, usual.ms(steps[j])) if first <= j < end else None
            for j in range(i - reach, i + reach)
        ]
        cost_ms = _cost_ms(steps[i : min(i + reach, end)], usual)
        one = usual.ms(steps[i])
        cost_steps = None if cost_ms is None or not one else cost_ms / one
        step = steps[i]
        found.append(ModeChange(step.t_s, step.mode, step.batch, tuple(relative), cost_ms, cost_steps))
    return found


def mean_relative(changes: Sequence[ModeChange], to: Mode) -> list[float | None]:
    """Mean over the changes to one mode of `relative`, by position; None where no change has a value."""
    rows = [c.relative for c in changes if c.to == to]
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    return [fmean(column) if column else None for column in columns]


class UsualStep:
    """Median step time by mode and batch size, from steps at least `reach` away from any change."""

    def __init__(self, steps: Steps, changes: Sequence[int], reach: int = REACH) -> None:
        near = {j for i in changes for j in range(i - reach, i + reach)}
        times: dict[tuple[Mode, int], list[float]] = defaultdict(list)
        for j, step in enumerate(steps):
            if j not in near and step.step_ms is not None:
                times[step.mode, step.batch].append(step.step_ms)
        self._medians: dict[Mode, dict[int, float]] = defaultdict(dict)
        for (mode, batch), found in times.items():
            if len(found) >= MIN_STEPS:
                self._medians[mode][batch] = median(found)

    def ms(self, step: StepRecord) -> float | None:
        """Usual milliseconds of a step like this one: same mode, and the nearest batch size that is known."""
        known = self._medians.get(step.mode)
        if not known:
            return None
        return known[min(known, key=lambda batch: (abs(batch - step.batch), batch))]


def _ratio(value: float | None, usual: float | None) -> float | None:
    return None if value is None or not usual else value / usual


def _cost_ms(steps: Steps, usual: UsualStep) -> float | None:
    """Sum of the steps' times beyond the usual ones; None when one of them is unknown."""
    total = 0.0
    for step in steps:
        expected = usual.ms(step)
        if step.step_ms is None or expected is None:
            return None
        total += step.step_ms - expected
    return total
