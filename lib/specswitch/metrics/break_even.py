"""From step times to the batch sizes in which speculation pays. Pure; decode steps only, prefill is not in it.

A speculative step pays if it brings more tokens per request than plain steps would make in the same time:
accept length > speculative step time / plain step time. That quotient is the *break-even accept length* of a
batch size. It belongs to machine, model and context length; the accept length belongs to the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from specswitch.metrics.intervals import Interval, mean_interval, paired_ratio
from specswitch.metrics.ratio import Ratio, pooled
from specswitch.metrics.records import StepRecord

# The first steps of a wave: the batch fills, and a mode's first step carries the switch.
SETTLING_STEPS = 3
# Repeats whose step times differ by more than this were not measured on the same machine.
REPEATS_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Wave:
    """One batch of requests run to its end in one mode.

    `step_ms`: median duration of the steps in which exactly `batch` requests ran; `steps`: how many those were.
    `accepted`: tokens per request and verify step over the same steps, 0/0 in plain mode.
    """

    batch: int
    repeat: int
    mode: str
    step_ms: float
    steps: int
    accepted: Ratio


def wave(batch: int, repeat: int, mode: str, steps: Sequence[StepRecord]) -> Wave | None:
    """The wave that these steps were; None when too few of them ran the whole batch in that mode.

    `steps`: every decode step of the wave, in order.
    """
    full = [s for s in steps if s.batch == batch and s.mode == mode][SETTLING_STEPS:]
    timed = [s.step_ms for s in full if s.step_ms is not None]
    if len(timed) < SETTLING_STEPS:
        return None
    accepted = Ratio(sum(s.emitted for s in full), sum(s.live for s in full))
    return Wave(
        batch, repeat, mode, median(timed), len(timed), accepted if mode == "speculative" else Ratio(0, 0)
    )


def break_even_lengths(waves: Sequence[Wave]) -> dict[int, Interval]:
    """Break-even accept length by batch size, ascending: speculative / plain step time, paired by repeat."""
    found = {}
    for batch in sorted({w.batch for w in waves}):
        plain, speculative = (
            {w.repeat: w.step_ms for w in waves if w.batch == batch and w.mode == mode}
            for mode in ("plain", "speculative")
        )
        both = sorted(plain.keys() & speculative.keys())
        ratio = paired_ratio([speculative[r] for r in both], [plain[r] for r in both])
        if ratio is not None:
            found[batch] = ratio
    return found


def break_even_at(lengths: Mapping[int, float], batch: int) -> float:
    """Break-even accept length of any batch size: linear in log2(batch) between measured ones, flat outside."""
    sizes = sorted(lengths)
    below = [s for s in sizes if s <= batch]
    above = [s for s in sizes if s >= batch]
    if not below or not above:
        return lengths[sizes[0] if not below else sizes[-1]]
    low, high = below[-1], above[0]
    if low == high:
        return lengths[low]
    share = math.log2(batch / low) / math.log2(high / low)
    return lengths[low] + share * (lengths[high] - lengths[low])


def paying_ranges(lengths: Mapping[int, float], accept_length: float) -> list[tuple[int, int]]:
    """Batch ranges [first, last] in which speculation pays at this accept length, up to the largest measured one.

    Without `lengths` there are none.
    """
    ranges: list[tuple[int, int]] = []
    for batch in range(1, max(lengths, default=0) + 1):
        if accept_length <= break_even_at(lengths, batch):
            continue
        if ranges and ranges[-1][1] == batch - 1:
            ranges[-1] = (ranges[-1][0], batch)
        else:
            ranges.append((batch, batch))
    return ranges


def break_even_batch(waves: Sequence[Wave], accept_length: float) -> Interval | None:
    """Largest batch size up to which speculation pays without a gap, over repeats; None if not in each repeat.

    Only where one threshold is the answer: every repeat pays at its smallest batch and no longer at its largest.
    """
    found = []
    for repeat in sorted({w.repeat for w in waves}):
        one = break_even_lengths([w for w in waves if w.repeat == repeat])
        lengths = {batch: interval.mean for batch, interval in one.items()}
        ranges = paying_ranges(lengths, accept_length)
        if not ranges or ranges[0][0] != 1 or ranges[0][1] == max(lengths):
            return None
        found.append(float(ranges[0][1]))
    return mean_interval(found)


def doubts(waves: Sequence[Wave]) -> list[str]:
    """What makes these step times no ground for a rule, a sentence each; empty when they will do."""
    found = []
    for batch, interval in break_even_lengths(waves).items():
        if interval.mean < 1:
            found.append(
                f"batch {batch}: a speculative step took less time than a plain one ({interval.mean:.2f}x)"
            )
        for mode in ("plain", "speculative"):
            times = [w.step_ms for w in waves if w.batch == batch and w.mode == mode]
            if max(times) > REPEATS_FACTOR * min(times):
                found.append(
                    f"batch {batch}, {mode}: repeats took {min(times):.1f} to {max(times):.1f} ms a step"
                )
    return found


def pooled_accept_length(waves: Sequence[Wave]) -> Ratio:
    """Accept length over every speculative wave."""
    return pooled(w.accepted for w in waves if w.mode == "speculative")


def mean_step_ms(waves: Sequence[Wave], batch: int, mode: str) -> float | None:
    """Mean over repeats of the median step time; None if that batch was not measured in that mode."""
    times = [w.step_ms for w in waves if w.batch == batch and w.mode == mode]
    return fmean(times) if times else None
