"""Lockstep generation: many sequences of one length at a time, for self-distilled text and evaluation."""

from __future__ import annotations

import torch
from torch import Tensor

from specswitch.models.network import Cache, Target


@torch.no_grad()
def generate(target: Target, prompts: Tensor, new: int, temperature: Tensor, seed: int = 0) -> Tensor:
    """Continue prompts [B, P] by `new` tokens each: [B, P + new] int64.

    temperature [B]: 0 is greedy, row by row. The end token is a token like any other.
    """
    generator = torch.Generator(prompts.device).manual_seed(seed)
    cache = Cache(prompts.shape[1] + new)
    ids = [prompts]
    sampled = bool((temperature > 0).any())
    step = prompts
    for _ in range(new):
        hidden, _aux = target(step, cache)
        logits = target.head(hidden[:, -1]).float()
        step = (pick(logits, temperature, generator) if sampled else logits.argmax(-1))[:, None]
        ids.append(step)
    return torch.cat(ids, 1)


def pick(logits: Tensor, temperature: Tensor, generator: torch.Generator) -> Tensor:
    """One token per row of logits fp32 [B, vocab], sampled at temperature [B]; greedy where that is 0."""
    # Gumbel's trick: the argmax of noisy logits is a sample. Greedy rows get no noise.
    uniform = torch.rand(logits.shape, generator=generator, device=logits.device)
    noise = -torch.log(-torch.log(uniform.clamp(1e-9, 1 - 1e-7)))
    scaled = logits / temperature.clamp(min=1e-4)[:, None]
    return (scaled + noise * (temperature > 0)[:, None]).argmax(-1)


def repeated_ngrams(ids: Tensor, n: int = 4) -> Tensor:
    """[B, T] -> bool [B, T]: the n-gram that ends here was in the same row before. False for t < n - 1."""
    grams = ids.unfold(1, n, 1)
    # An n-gram as one number; a collision needs ids above 2**15, ours are below 2**11.
    weights = 2 ** (15 * torch.arange(n, device=ids.device))
    codes = (grams.long() * weights).sum(-1)
    order = codes.argsort(dim=1, stable=True)
    in_order = codes.gather(1, order)
    same = torch.zeros_like(in_order, dtype=torch.bool)
    same[:, 1:] = in_order[:, 1:] == in_order[:, :-1]
    repeated = torch.zeros(ids.shape, dtype=torch.bool, device=ids.device)
    repeated[:, n - 1 :] = torch.zeros_like(same).scatter(1, order, same)
    return repeated


def distinct_share(ids: Tensor, n: int = 4) -> float:
    """Share of n-grams that are new to their row, mean over rows [B, T]."""
    return 1.0 - float(repeated_ngrams(ids, n)[:, n - 1 :].float().mean())
