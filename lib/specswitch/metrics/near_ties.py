"""Are two outputs of a greedy server the same, or do they part at a near-tie? (field case A25)

Kernels differ with the batch's shape, so a low-precision server may break a tie another way; from there on the
text differs without a fault. The produced tokens are forced through the plain model: each must be its argmax or
lose to it by less than a small gap. A larger gap anywhere is a bug, and so is an end at another place after the
same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

NEAR = 0.1  # nats
# In bfloat16 logits between 16 and 32 are multiples of 0.125, so a tie broken the other way is that much or a few times
# that much. The widest gap in 596 outputs of the engine's own speculating server (H200, SmolLM2-135M) was 0.5.
NEAR_BFLOAT16 = 5 * 0.125


@dataclass(frozen=True)
class Verdict:
    """`kind`: identical, near-tie or different. The first place where the outputs part, and the widest gap."""

    kind: str
    first_divergence: int | None
    widest_gap: float
    widest_at: int | None

    @property
    def acceptable(self) -> bool:
        """No token is worse than a near-tie."""
        return self.kind != "different"


def near_of(dtype: str) -> float:
    """The largest gap of a near-tie in nats, for a server of this dtype; `auto` counts as bfloat16."""
    return NEAR if dtype in ("float32", "float16") else NEAR_BFLOAT16


def compare(
    produced: Sequence[int],
    reference: Sequence[int],
    logprobs: Sequence[float],
    best: Sequence[float],
    near: float = NEAR,
) -> Verdict:
    """Judge `produced` by the plain model's view of it.

    Args:
        produced: the tokens to judge. reference: the plain server's own greedy tokens.
        logprobs: the plain model's logprob of each produced token, given the produced ones before it.
        best: the largest logprob at each of these places.
        near: largest gap of a near-tie, in nats.

    Raises:
        ValueError: lengths do not go together, or a logprob is no number.
    """
    if not len(produced) == len(logprobs) == len(best):
        raise ValueError(f"{len(produced)} tokens, {len(logprobs)} logprobs, {len(best)} best ones")
    if any(math.isnan(x) for x in (*logprobs, *best)):
        raise ValueError("a logprob is NaN: nothing can be said")
    gaps = [top - own for own, top in zip(logprobs, best, strict=True)]
    widest_at = max(range(len(gaps)), key=gaps.__getitem__, default=None)
    widest = 0.0 if widest_at is None else gaps[widest_at]
    parted = next((i for i, (a, b) in enumerate(zip(produced, reference, strict=False)) if a != b), None)
    if parted is None and len(produced) != len(reference):
        parted = min(len(produced), len(reference))
    ends_elsewhere = parted is not None and parted == min(len(produced), len(reference))
    if widest > near or ends_elsewhere:
        kind = "different"
    elif parted is None:
        kind = "identical"
    else:
        kind = "near-tie"
    return Verdict(kind, parted, widest, widest_at)
