"""What happened between two looks at a server: its counters count from its start, a sample is their difference."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

COUNTERS = ("plain_steps", "speculative_steps", "plain_tokens", "speculative_tokens", "accepted")
KEPT = 600  # five minutes at two a second


@dataclass(frozen=True, slots=True)
class Reading:
    """A server's state as read at `t_s` (CLOCK_MONOTONIC seconds)."""

    t_s: float
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the live figure; None where there is no such number.

    `t_s`: CLOCK_MONOTONIC seconds of the later look. `running_batch`, `threshold`: as the server said then.
    `speculative_share`: speculative decode steps / all since the look before; None without a step.
    `accept_length`: tokens per request per verify step, bonus included; None if nothing was verified.
    `tok_s`: tokens per second out of decode steps (a request's first token comes from its prefill).
    """

    t_s: float
    running_batch: int | None
    threshold: int | None
    speculative_share: float | None
    accept_length: float | None
    tok_s: float | None

    @property
    def mode(self) -> str | None:
        """speculative, plain, both, or None if no step was made."""
        if self.speculative_share is None:
            return None
        return {1.0: "speculative", 0.0: "plain"}.get(self.speculative_share, "both")


def gap(t_s: float) -> Sample:
    """Nothing is known of this moment: the server did not answer."""
    return Sample(t_s, None, None, None, None, None)


def between(before: Reading | None, after: Reading) -> Sample:
    """The sample at `after`. Without a look before, or with one at another server process, rates are None."""
    counted = _counted(before, after)
    share = length = rate = None
    if counted is not None and before is not None:
        plain, speculative, plain_tokens, speculative_tokens, accepted = counted
        if plain + speculative > 0:
            share = speculative / (plain + speculative)
        # Every verified request emits what it accepted and one bonus token.
        verified = speculative_tokens - accepted
        if verified > 0:
            length = speculative_tokens / verified
        if after.t_s > before.t_s:
            rate = (plain_tokens + speculative_tokens) / (after.t_s - before.t_s)
    state = after.state
    return Sample(after.t_s, state.get("running_batch"), state.get("threshold"), share, length, rate)


def _counted(before: Reading | None, after: Reading) -> list[int] | None:
    """What each of COUNTERS rose by; None where that means nothing."""
    if before is None or before.state.get("pid") != after.state.get("pid"):
        return None
    pairs = [(before.state.get(name), after.state.get(name)) for name in COUNTERS]
    rises = [b - a for a, b in pairs if a is not None and b is not None]
    return rises if len(rises) == len(COUNTERS) and min(rises) >= 0 else None


class History:
    """The newest samples, `kept` at most, oldest first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._samples: deque[Sample] = deque(maxlen=kept)

    def add(self, sample: Sample) -> None:
        """Append; the oldest one gives way."""
        self._samples.append(sample)

    def clear(self) -> None:
        """Forget all."""
        self._samples.clear()

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(tuple(self._samples))
