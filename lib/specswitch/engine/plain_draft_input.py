"""What a v2 plain step leaves for the next step: a draft input that needs no wait and little copying.

After a verify the scheduler cannot know how long each request has become, so the stock preparation waits for
the step to finish before it prepares the next one. After a plain step it is one token more, known at once; so
the next preparation can overlap with the step that still runs, as in a server without speculation.

And while the draft state is pending (lazy sync) there is none to carry from step to step: only the bonus tokens
go through the engine's future map, until a step needs the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.speculative.eagle_info import EagleDraftInput

HOST_LEN = "specswitch_len"


def note_lens(reqs: list[Any], lens: list[int] | None) -> None:
    """Note each request's length after the step just launched; None = not known (a verify decides)."""
    for i, req in enumerate(reqs):
        setattr(req, HOST_LEN, None if lens is None else lens[i])


@dataclass
class PlainDraftInput(EagleDraftInput):
    """Draft input after a plain step.

    `next_seq_lens` [b]: lengths after the coming step if it is plain, too. `deferred`: topk_p, topk_index and
    hidden_states are not there; `materialise` fetches what the future map has of them (the rows of requests
    prefilled meanwhile; the others' are meaningless until caught up).
    """

    next_seq_lens: torch.Tensor | None = None
    deferred: bool = False
    fetch_rest: Callable[[Any], None] | None = None

    def materialise(self, batch: Any) -> None:
        """Make every field present; called before a step of `batch`, whose draft input this is, that reads them."""
        if self.fetch_rest is not None:
            self.fetch_rest(batch)
            self.fetch_rest = None

    def prepare_for_decode(self, batch: Any) -> None:
        """Prepare the scheduler's batch for its next decode step without waiting for the last one."""
        self.next_seq_lens = None
        lens = [getattr(req, HOST_LEN, None) for req in batch.reqs]
        if any(n is None for n in lens):
            super().prepare_for_decode(batch)
            return
        on_device = batch.seq_lens
        # The stock preparation copies the lengths from the device, which waits; lend it the host's.
        batch.seq_lens = torch.tensor(lens, dtype=batch.seq_lens_cpu.dtype)
        try:
            super().prepare_for_decode(batch)
        finally:
            batch.seq_lens = on_device
        self.next_seq_lens = on_device + 1  # on the scheduler's stream, where it will read it


def store_deferred(original: Callable, future_map: Any, future_indices: Any, draft_input: Any) -> None:
    """Around `FutureMap.store_to_map_for_new_batch`: of a deferred draft input only the bonus tokens exist."""
    if getattr(draft_input, "deferred", False):
        future_map.bonus_tokens_buf[future_indices.interval] = draft_input.bonus_tokens
    else:
        original(future_map, future_indices, draft_input)


def resolve_deferred(original: Callable, future_map: Any, batch: Any) -> None:
    """Around `FutureMap.resolve_future`: read the bonus tokens now and the rest when it is asked for."""
    draft_input = batch.spec_info
    if not getattr(draft_input, "deferred", False):
        original(future_map, batch)
        return
    indices = draft_input.future_indices.indices
    indices.record_stream(torch.get_device_module(future_map.device).current_stream())
    draft_input.bonus_tokens = future_map.bonus_tokens_buf[indices]
    # Not bound to the batch: the two would hold each other, and all their tensors, until garbage is collected.
    draft_input.fetch_rest = functools.partial(original, future_map)
