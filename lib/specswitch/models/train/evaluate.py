"""What the pair is worth on held-out text: accept length of a greedy chain, and how much the text repeats.

The chain is walked over text the target wrote; that equals running it, because a chain's guess depends only
on tokens that were accepted. `specswitch.models.reference` runs it literally; a test compares the two.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specswitch.models.network import Draft, Target
from specswitch.models.train.draft import chain_logits
from specswitch.models.train.generate import distinct_share, generate
from specswitch.models.train.target import held_out_loss

PROMPT, NEW, FIRST = 64, 128, 32
CHAIN = 3


@torch.no_grad()
def matches(draft: Draft, target: Target, ids: Tensor, steps: int = CHAIN) -> Tensor:
    """ids [B, L] -> bool [B, L - steps - 1, steps]: guess k of the chain from position i is token i + k + 2."""
    hidden_states, aux = target(ids)
    del hidden_states
    guesses = [
        draft.to_target(x.argmax(-1)) for x in chain_logits(draft, target.model.embed_tokens(ids), aux, steps)
    ]
    count = ids.shape[1] - steps - 1
    return torch.stack([g[:, :count] == ids[:, k + 2 : k + 2 + count] for k, g in enumerate(guesses)], -1)


def accept_length(right: Tensor, prompt: int, new: int) -> tuple[int, int]:
    """Walk the chains over the `new` tokens behind a prompt: (tokens emitted by verify steps, verify steps).

    right: what `matches` returns. The first new token comes with the prefill and is in neither number. A last
    chain that would run over the end counts what it emits up to there.
    """
    runs = right.int().cumprod(-1).sum(-1).tolist()
    emitted = verifies = 0
    for row in runs:
        # `last` is the newest known token; its chain begins one position earlier.
        last, end = prompt, prompt + new - 1
        while last < end:
            step = min(row[last - 1] + 1, end - last)
            last += step
            emitted += step
            verifies += 1
    return emitted, verifies


def held_out_prompts(stream: Tensor, count: int) -> Tensor:
    """`count` prompts [count, PROMPT], evenly over a held-out stream."""
    starts = torch.linspace(0, len(stream) - PROMPT, count, device=stream.device).long()[:, None]
    return stream[starts + torch.arange(PROMPT, device=stream.device)].long()


@torch.no_grad()
def evaluate(
    target: Target, draft: Draft, streams: dict[str, Tensor], count: int
) -> dict[str, dict[str, float]]:
    """Figures per kind of held-out text (`streams`: kind -> tokens [n]); computed in the weights' dtype."""
    report: dict[str, dict[str, float]] = {}
    for kind, stream in streams.items():
        prompts = held_out_prompts(stream, count)
        figures: dict[str, float] = {"prompts": count}
        loss = held_out_loss(target, stream)
        if loss is not None:
            figures["loss"] = round(loss, 4)
        for name, temperature in (("greedy", 0.0), ("t07", 0.7), ("t1", 1.0)):
            # Some tokens more than are counted, so that the last chains have text to be compared with.
            ids = generate(
                target,
                prompts,
                NEW + CHAIN + 2,
                torch.full((count,), temperature, device=prompts.device),
                seed=5,
            )
            right = matches(draft, target, ids)
            for label, new in ((f"{name}_accept", NEW), (f"{name}_accept_first{FIRST}", FIRST)):
                emitted, verifies = accept_length(right, PROMPT, new)
                figures[label] = round(emitted / verifies, 3)
            figures[f"{name}_distinct4"] = round(distinct_share(ids[:, PROMPT : PROMPT + NEW]), 3)
        rows = len(stream) // NEW
        figures["real_distinct4"] = round(distinct_share(stream[: rows * NEW].view(rows, NEW).long()), 3)
        report[kind] = figures
    return report
