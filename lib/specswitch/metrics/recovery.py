"""Does acceptance come back when speculation does? Accept length by number of verify steps since the resume.

A resume is a verify step right after a plain one, under running requests. The draft's KV cache then has a gap
of as many tokens as the plain steps made, and the sync rule decides what becomes of it. Requests that begin
after the resume have no gap; they are in the curve, too, the more the later the step.
"""

from __future__ import annotations

from collections.abc import Sequence

from specswitch.metrics.mode_changes import change_indices
from specswitch.metrics.ratio import Ratio, pooled
from specswitch.metrics.records import StepRecord

Steps = Sequence[StepRecord]
# Verify steps within which a sync rule should be back, and what counts as back.
SOON = 5
BACK = 0.95


def resumed_phases(steps: Steps) -> list[list[StepRecord]]:
    """The verify steps of each phase that began with a resume, up to the next plain step."""
    phases = []
    for start in change_indices(steps):
        if steps[start].mode == "speculative":
            phase = []
            for step in steps[start:]:
                if step.mode != "speculative":
                    break
                phase.append(step)
            phases.append(phase)
    return phases


def recovery_curve(steps: Steps, length: int) -> list[Ratio]:
    """Accept length in the 1st, 2nd, ... `length`-th verify step since a resume, pooled over the resumes.

    Tokens emitted / request-steps, bonus token included, as `acceptance.accept_length`; undefined (0 / 0)
    where no phase was that long.
    """
    phases = resumed_phases(steps)
    return [pooled(_one(phase[j]) for phase in phases if j < len(phase)) for j in range(length)]


def soon_after_resume(steps: Steps, within: int = SOON) -> Ratio:
    """Accept length over the first `within` verify steps since each resume, pooled."""
    return pooled(recovery_curve(steps, within))


def _one(step: StepRecord) -> Ratio:
    return Ratio(step.emitted, step.live)
