"""The decision: which shape has the next decode step? Pure, no tensors, no engine.

A function of (running decode batch, mode, steps already spent in that mode) alone, so that every rank of a
tensor-parallel server decides the same without talking to the others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any


class Mode(Enum):
    """The two shapes of a decode step."""

    PLAIN = "plain"
    SPECULATIVE = "speculative"


class RuleError(ValueError):
    """A rule that cannot be; the message names the value and the cure."""


SYNC_RULES = ("lazy", "eager", "stale")


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RuleError(f"{name}={value!r}: give a whole number >= {least}")
    return value


def parse_ranges(value: Any) -> tuple[tuple[int, int], ...]:
    """Batch ranges in which to speculate, from JSON: `[[1, 8], [33, 64]]`, ascending, not overlapping.

    Raises:
        RuleError: not a list of ascending, disjoint [first, last] pairs of whole numbers >= 1.
    """
    if not isinstance(value, list | tuple) or not value:
        raise RuleError(f"batch table {value!r}: give a non-empty list of [first, last] pairs")
    ranges: list[tuple[int, int]] = []
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise RuleError(f"batch table entry {pair!r}: give [first, last]")
        first, last = _whole("first", pair[0], 1), _whole("last", pair[1], 1)
        if last < first or (ranges and first <= ranges[-1][1]):
            raise RuleError(f"batch table entry {pair!r}: ranges must ascend and not overlap")
        ranges.append((first, last))
    return tuple(ranges)


def load_batch_table(path: str) -> tuple[tuple[int, int], ...]:
    """Read `{"speculate": [[first, last], ...]}` from a JSON file.

    Raises:
        RuleError: the file cannot be read or does not hold such a table.
    """
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except (OSError, ValueError) as e:
        raise RuleError(f"batch table file {path!r} cannot be read: {e}") from e
    if not isinstance(data, dict) or set(data) != {"speculate"}:
        raise RuleError(f'batch table file {path!r}: expected {{"speculate": [[first, last], ...]}}')
    return parse_ranges(data["speculate"])


@dataclass(frozen=True, slots=True)
class Rule:
    """When to speculate.

    `threshold`: largest running batch that still speculates (0 = never, None = always).
    `enable_threshold`: once off, on again only at batch <= this; None = `threshold`.
    `dwell`: least number of decode steps in a mode before it may change.
    `ranges`: speculate exactly in these batch ranges; takes the place of the two thresholds.
    """

    threshold: int | None = None
    enable_threshold: int | None = None
    dwell: int = 1
    ranges: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None:
            _whole("threshold", self.threshold, 0)
        if self.enable_threshold is not None:
            _whole("enable_threshold", self.enable_threshold, 0)
            if self.threshold is None:
                raise RuleError(
                    f"enable_threshold={self.enable_threshold} without a threshold: set threshold"
                )
            if self.enable_threshold > self.threshold:
                raise RuleError(
                    f"enable_threshold={self.enable_threshold} > threshold={self.threshold}: "
                    "hysteresis needs enable_threshold <= threshold"
                )
        _whole("dwell", self.dwell, 1)
        if self.ranges is not None and self.threshold is not None:
            raise RuleError(f"threshold={self.threshold} and a batch table: give one of the two")

    def changed(self, **changes: Any) -> Rule:
        """This rule with some fields changed, checked anew.

        Lowering the threshold below `enable_threshold` without naming the latter drops the hysteresis band to
        the new threshold; naming a threshold drops the batch table, and the other way round.
        """
        if "threshold" in changes:
            changes.setdefault("ranges", None)
            t, e = changes["threshold"], self.enable_threshold
            if "enable_threshold" not in changes and e is not None and (t is None or e > t):
                changes["enable_threshold"] = None
        elif changes.get("ranges") is not None:
            changes["threshold"] = changes["enable_threshold"] = None
        return replace(self, **changes)

    def next_mode(self, batch: int, mode: Mode, steps_in_mode: int) -> Mode:
        """The mode of the next decode step.

        Args:
            batch: decode requests in the step; prefilling ones do not count.
            mode: mode of the step before.
            steps_in_mode: decode steps already spent in `mode`.
        """
        if steps_in_mode < self.dwell:
            return mode
        return Mode.SPECULATIVE if self._wants_speculation(batch, mode) else Mode.PLAIN

    def _wants_speculation(self, batch: int, mode: Mode) -> bool:
        if self.ranges is not None:
            return any(first <= batch <= last for first, last in self.ranges)
        if self.threshold is None:
            return True
        if mode is Mode.PLAIN and self.enable_threshold is not None:
            return batch <= self.enable_threshold
        return batch <= self.threshold


class Switch:
    """A rule with its memory: feeds `next_mode` and counts. One per scheduler process."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.mode = Mode.SPECULATIVE
        self.steps_in_mode = rule.dwell  # the first step may have any mode
        self.switches = 0

    def set_rule(self, rule: Rule) -> None:
        """Use `rule` from the next step on; the dwell of the old rule does not delay it."""
        self.rule = rule
        self.steps_in_mode = max(self.steps_in_mode, rule.dwell)

    def step(self, batch: int) -> tuple[Mode, bool]:
        """Decide the mode of this step; returns it and whether it differs from the step before."""
        mode = self.rule.next_mode(batch, self.mode, self.steps_in_mode)
        switched = mode is not self.mode
        if switched:
            self.mode, self.steps_in_mode = mode, 0
            self.switches += 1
        self.steps_in_mode += 1
        return mode, switched
