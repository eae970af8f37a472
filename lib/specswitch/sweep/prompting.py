"""Which prompts a point sends: the same for every arm of a repeat, other ones in the next repeat."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from specswitch.load.crossing_plan import AnyPoint
from specswitch.load.prompts import Prompts, load_prompts


def prompts_of(point: AnyPoint) -> Prompts:
    """The prompts of a point: those of its seed plus its repeat. Raises as `load_prompts`."""
    w = point.workload
    return _load(w.dataset, point.server.model, w.prompt_tokens, w.seed + point.repeat)


@cache
def _load(dataset: str, model: str, prompt_tokens: int, seed: int) -> Prompts:
    return load_prompts(dataset, Path(model), prompt_tokens, seed)
