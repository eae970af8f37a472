"""Many prompts of different lengths, answered in lockstep without padding.

All rows start at the length of the shortest prompt; a row that is still inside its prompt is given its next
prompt token instead of the sampled one. So every token stands at its true position and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specswitch.models.network import Cache, Target
from specswitch.models.train.generate import pick

# How often finished rows are looked for (the host waits for the device then), and the share that is worth a copy.
LOOK_EVERY, WORTH_DROPPING = 32, 0.2


@torch.no_grad()
def answer(
    target: Target,
    prompts: Sequence[Sequence[int]],
    width: int,
    temperatures: Tensor,
    ends: frozenset[int] = frozenset(),
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Prompts continued up to `width` tokens in all, prompt included: ids [B, width] int64 and lengths [B] int64.

    temperatures [B], on the target's device: 0 is greedy. A row is over with its first token of `ends` behind
    the prompt, which its length counts; what stands behind that is not to be used. Without `ends` all are full.
    """
    device = temperatures.device
    generator = torch.Generator(device).manual_seed(seed)
    given = _padded(prompts, width).to(device)
    ids = torch.zeros_like(given)
    prompt_length = torch.tensor([len(p) for p in prompts], device=device)
    lengths = torch.full_like(prompt_length, width)
    stops = torch.tensor(sorted(ends), device=device, dtype=torch.int64)
    start = min(len(p) for p in prompts)
    ids[:, :start] = given[:, :start]

    cache, rows = Cache(width), torch.arange(len(prompts), device=device)
    step = given[:, :start]
    for position in range(start, width):
        hidden, _aux = target(step, cache)
        said = pick(target.head(hidden[:, -1]).float(), temperatures[rows], generator)
        answering = prompt_length[rows] <= position
        chosen = torch.where(answering, said, given[rows, position])
        ids[rows, position] = chosen
        step = chosen[:, None]
        if not ends:
            continue
        ended = answering & torch.isin(chosen, stops) & (lengths[rows] == width)
        lengths[rows] = torch.where(ended, position + 1, lengths[rows])
        if (position - start) % LOOK_EVERY == LOOK_EVERY - 1:
            going_on = (lengths[rows] == width).nonzero().flatten()
            if not len(going_on):
                break
            if len(going_on) < (1 - WORTH_DROPPING) * len(rows):
                cache.keep(going_on)
                rows, step = rows[going_on], step[going_on]
    return ids, lengths


def _padded(prompts: Sequence[Sequence[int]], width: int) -> Tensor:
    """[B, width] int64, zeros behind each prompt. Raises ValueError if one leaves no room for an answer."""
    longest = max(len(p) for p in prompts)
    if longest >= width:
        raise ValueError(f"a prompt of {longest} tokens leaves no room in {width}")
    return torch.tensor([[*p, *[0] * (width - len(p))] for p in prompts])
