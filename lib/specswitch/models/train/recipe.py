"""How long each stage takes and how large its batches are."""

from __future__ import annotations

from dataclasses import dataclass

from specswitch.models.network import Shape


@dataclass(frozen=True, slots=True)
class Recipe:
    """Shares of the time are of the whole; batches are rows."""

    shape: Shape
    target_batch: int
    loops_batch: int
    text_batch: int
    text_length: int
    draft_batch: int
    evaluated_prompts: int
    target_share: float = 0.54
    loops_share: float = 0.12
    text_share: float = 0.07
    draft_share: float = 0.27


FULL = Recipe(
    Shape(), target_batch=96, loops_batch=1024, text_batch=3072, text_length=448, draft_batch=128,
    evaluated_prompts=128,
)  # fmt: skip
# For a CPU: the same code and shapes of the same kind, seconds instead of minutes.
MINIATURE = Recipe(
    Shape(hidden=32, layers=4, heads=2, kv_heads=1, head_dim=16, mlp=64, vocab=512, draft_vocab=384, context=128,
          aux_layers=(0, 1, 2)),
    target_batch=8, loops_batch=8, text_batch=12, text_length=96, draft_batch=8, evaluated_prompts=4,
)  # fmt: skip
