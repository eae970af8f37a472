"""How long each stage takes and how large its batches are."""

from __future__ import annotations

from dataclasses import dataclass

from specswitch.models.network import Shape


@dataclass(frozen=True, slots=True)
class Stages:
    """Share of the training time per stage; 0 skips it."""

    target: float
    loops: float
    settle: float
    text: float
    draft: float


@dataclass(frozen=True, slots=True)
class Recipe:
    """Sizes of the pair and of the batches (rows)."""

    shape: Shape
    target_batch: int
    loops_batch: int
    text_batch: int
    text_length: int
    draft_batch: int


FROM_SCRATCH = Stages(target=0.50, loops=0.08, settle=0.06, text=0.08, draft=0.28)
# Going on from a pair that exists: the target's text is made natural again and the draft follows it.
GOING_ON = Stages(target=0.0, loops=0.0, settle=0.15, text=0.25, draft=0.60)
# The target stays as it is, to the bit.
DRAFT_ONLY = Stages(target=0.0, loops=0.0, settle=0.0, text=0.20, draft=0.80)

FULL = Recipe(
    Shape(), target_batch=96, loops_batch=1024, text_batch=3072, text_length=448, draft_batch=128
)  # fmt: skip
# For a CPU: the same code on toy sizes, seconds instead of minutes.
MINIATURE = Recipe(
    Shape(hidden=32, layers=4, heads=2, kv_heads=1, head_dim=16, mlp=64, vocab=512, draft_vocab=384, context=128,
          aux_layers=(0, 1, 2)),
    target_batch=8, loops_batch=8, text_batch=12, text_length=96, draft_batch=8,
)  # fmt: skip
