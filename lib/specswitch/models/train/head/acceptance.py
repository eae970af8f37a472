"""Stage 4: what the head is worth on held-out prompts: accept length of a greedy chain.

As for the bundled pair (`train.evaluate`), the chain is walked over text that the target wrote, which equals
running it; here prompts have their own lengths and answers end where the model ends them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from specswitch.models.network import Draft, Target
from specswitch.models.train.evaluate import CHAIN, FIRST, NEW, accept_length, matches
from specswitch.models.train.head.decode import answer
from specswitch.models.train.head.sizes import Sizes, halving

# A row's logits over the draft vocabulary, for every position and step, are large.
MATCH_ROWS = 16
TEMPERATURES = {"greedy": 0.0, "sampled_t0.7": 0.7}


@torch.no_grad()
def measure(
    target: Target,
    draft: Draft,
    prompts: Sequence[Sequence[int]],
    ends: frozenset[int],
    sizes: Sizes,
    seconds: float,
) -> dict[str, float | int | None]:
    """Figures over answers to as many of the prompts (token ids) as `seconds` allow, at least one batch of them.

    `accept_first32`, `accept_128`: tokens per verify step, bonus token included, over so many tokens of each
    answer or all of it if it is shorter; None without a verify step. `distinct4`: share of 4-grams that are new
    to their answer, mean over answers. Computed in the models' own dtype.
    """
    start, done = time.monotonic(), 0
    counts = {
        f"{name}_accept_{label}": [0, 0] for name in TEMPERATURES for label in (f"first{FIRST}", f"{NEW}")
    }
    shares: dict[str, list[float]] = {name: [] for name in TEMPERATURES}
    rows = sizes.measure_rows
    while done < len(prompts):
        spent = time.monotonic() - start
        if done and spent * (done + rows) / done > seconds:
            break
        asked = prompts[done : done + rows]
        for name, temperature in TEMPERATURES.items():
            ids, lengths = _answers(target, asked, temperature, ends, seed=5 + done)
            right = _matches(draft, target, ids)
            for prompt, length, row, hits in zip(map(len, asked), lengths, ids.tolist(), right, strict=True):
                for label, new in ((f"first{FIRST}", FIRST), (f"{NEW}", NEW)):
                    emitted, verifies = accept_length(hits[None], prompt, min(new, length - prompt))
                    counts[f"{name}_accept_{label}"][0] += emitted
                    counts[f"{name}_accept_{label}"][1] += verifies
                if length - prompt >= 4:
                    shares[name].append(distinct4(row[prompt : min(length, prompt + NEW)]))
        done += len(asked)
    figures: dict[str, float | int | None] = {"prompts": done, "longest_chain": CHAIN + 1}
    for key, (emitted, verifies) in counts.items():
        figures[key] = round(emitted / verifies, 3) if verifies else None
    for name, found in shares.items():
        figures[f"{name}_distinct4"] = round(sum(found) / len(found), 3) if found else None
    return figures


def distinct4(ids: Sequence[int]) -> float:
    """Share of 4-grams that are new; `ids` has at least four."""
    grams = list(zip(ids, ids[1:], ids[2:], ids[3:], strict=False))
    return len(set(grams)) / len(grams)


def _answers(
    target: Target, prompts: Sequence[Sequence[int]], temperature: float, ends: frozenset[int], seed: int
) -> tuple[Tensor, list[int]]:
    """Answers that go on behind their end, so that the last chains have text to be compared with; where each ends."""
    device = target.head_weight.device
    width = max(map(len, prompts)) + NEW + CHAIN + 2
    heat = torch.full((len(prompts),), temperature, device=device)
    ids, _ = answer(target, prompts, width, heat, seed=seed)
    lengths = []
    for row, prompt in zip(ids.tolist(), map(len, prompts), strict=True):
        ended = (at + 1 for at in range(prompt, width) if row[at] in ends)
        lengths.append(next(ended, width))
    return ids, lengths


def _matches(draft: Draft, target: Target, ids: Tensor) -> Tensor:
    """`evaluate.matches`, some rows at a time, on the CPU."""
    found: list[Tensor] = []
    at, rows = 0, MATCH_ROWS
    while at < len(ids):

        def some(count: int, at: int = at) -> Tensor:
            return matches(draft, target, ids[at : at + count], CHAIN).cpu()

        part, rows = halving(some, rows)
        found.append(part)
        at += rows
    return torch.cat(found)
