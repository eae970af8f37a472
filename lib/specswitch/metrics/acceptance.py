"""Acceptance and speculation, from what the engine did in each decode step. Lists of `StepRecord` in.

- accept length = tokens emitted per request per **verify** step, bonus token included. Tokens of plain steps
  are not in it, nor rows of requests that had ended before; with k drafts it lies in [1, k + 1].
- accept rate = accepted draft tokens / proposed draft tokens, verify steps only, bonus not in it. Where the
  draft length varies, this is the one to compare.
- speculated share = share of decode steps (and, separately, of output tokens) made by speculative steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specswitch.metrics.ratio import Ratio
from specswitch.metrics.records import StepRecord
from specswitch.metrics.window import Window

Steps = Sequence[StepRecord]


def steps_in(steps: Iterable[StepRecord], window: Window) -> list[StepRecord]:
    """Steps whose result was known inside the window."""
    return [s for s in steps if window.holds(s.t_s)]


def verify_steps(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The speculative steps: those that drafted and verified."""
    return [s for s in steps if s.mode == "speculative"]


def accept_length(steps: Steps) -> Ratio:
    """Tokens emitted in verify steps / (requests x verify steps). Bonus token included."""
    verified = verify_steps(steps)
    return Ratio(sum(s.emitted for s in verified), sum(s.live for s in verified))


def accept_rate(steps: Steps) -> Ratio:
    """Accepted / proposed draft tokens, verify steps only. Bonus token not included."""
    verified = verify_steps(steps)
    return Ratio(sum(s.accepted for s in verified), sum(s.proposed for s in verified))


def speculated_steps(steps: Steps) -> Ratio:
    """Speculative decode steps / all decode steps."""
    return Ratio(len(verify_steps(steps)), len(steps))


def speculated_tokens(steps: Steps) -> Ratio:
    """Tokens emitted by speculative steps / tokens emitted by all decode steps."""
    return Ratio(sum(s.emitted for s in verify_steps(steps)), sum(s.emitted for s in steps))


def switches(steps: Steps) -> int | None:
    """How often the mode changed; None when no step was recorded."""
    return sum(s.switched for s in steps) if steps else None


def max_running(steps: Steps) -> int | None:
    """Largest decode batch that really ran; None when no step was recorded."""
    return max((s.batch for s in steps), default=None)


def mean_running(steps: Steps) -> float | None:
    """Mean decode batch over steps; None when no step was recorded."""
    return sum(s.batch for s in steps) / len(steps) if steps else None
