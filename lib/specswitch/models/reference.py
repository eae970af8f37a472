"""Greedy speculative decoding with a chain, in plain torch, one request at a time: what the engine must equal.

Written for obviousness: no batching, no paging, no graphs. Draft, verify and draft-extend are the three
steps of the loop, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specswitch.models.checkpoint import load_pair
from specswitch.models.network import Cache, Draft, Target

Pair = tuple[Target, Draft]


@dataclass(frozen=True, slots=True)
class Trace:
    """`ids`: new tokens. `accepted`: drafts accepted by each verify step, in order."""

    ids: list[int]
    accepted: list[int]

    @property
    def accept_length(self) -> float | None:
        """Tokens per verify step, the bonus token counted in; None without a verify step."""
        return 1 + sum(self.accepted) / len(self.accepted) if self.accepted else None


def load(target_directory: Path, draft_directory: Path, dtype: torch.dtype = torch.float32) -> Pair:
    """The pair for `speculate` and `greedy`, on the CPU."""
    return load_pair(target_directory, draft_directory, dtype)


@torch.no_grad()
def greedy(pair: Pair, prompt: Sequence[int], new_tokens: int) -> list[int]:
    """The target alone: `new_tokens` ids, the end token not minded."""
    target, _ = pair
    cache = Cache(len(prompt) + new_tokens)
    step, ids = torch.tensor([list(prompt)]), []
    for _ in range(new_tokens):
        hidden, _aux = target(step, cache)
        step = target.head(hidden[:, -1]).argmax(-1, keepdim=True)
        ids.append(int(step))
    return ids


@torch.no_grad()
def speculate(pair: Pair, prompt: Sequence[int], new_tokens: int, steps: int = 3) -> Trace:
    """Target and draft together, a chain of `steps` drafts per verify; the end token is not minded.

    The last verify may emit more than was asked for: `ids` is cut to `new_tokens`, `accepted` is not.
    """
    target, _ = pair
    room = len(prompt) + new_tokens + 2 * steps + 2
    target_cache, draft_cache = Cache(room), Cache(room)

    hidden, aux = target(torch.tensor([list(prompt)]), target_cache)
    bonus = int(target.head(hidden[0, -1]).argmax())
    state = _extend(pair, draft_cache, [*prompt[1:], bonus], aux)
    ids, accepted = [bonus], []
    while len(ids) < new_tokens:
        drafts = _chain(pair, draft_cache, state, steps)

        hidden, aux = target(torch.tensor([[bonus, *drafts]]), target_cache)
        said = target.head(hidden[0]).argmax(-1).tolist()
        right = next((k for k in range(steps) if drafts[k] != said[k]), steps)
        fresh = said[: right + 1]
        ids += fresh
        accepted.append(right)
        bonus = fresh[-1]

        # Rows of refused drafts are forgotten; the draft then reads the true hidden states of the kept ones.
        target_cache.length -= steps - right
        state = _extend(pair, draft_cache, fresh, aux[:, : right + 1])
    return Trace(ids[:new_tokens], accepted)


def _extend(pair: Pair, cache: Cache, next_tokens: Sequence[int], aux: Tensor) -> Tensor:
    """Feed the draft true hidden states aux [1, T, 3H] with the T tokens that follow them; its last state."""
    target, draft = pair
    embeds = target.model.embed_tokens(torch.tensor([list(next_tokens)]))
    return draft(embeds, draft.fc(aux), cache)[:, -1:]


def _chain(pair: Pair, cache: Cache, state: Tensor, steps: int) -> list[int]:
    """Draft `steps` tokens from the last state, feeding back own states; the cache is left as it was."""
    target, draft = pair
    length = cache.length
    drafts = [int(draft.to_target(draft.head(state[0, 0]).argmax()))]
    while len(drafts) < steps:
        embeds = target.model.embed_tokens(torch.tensor([[drafts[-1]]]))
        state = draft(embeds, state, cache)
        drafts.append(int(draft.to_target(draft.head(state[0, 0]).argmax())))
    cache.length = length
    return drafts
