"""What a v2 plain step leaves for the next step: a draft input that needs no wait for the device.

After a verify the scheduler cannot know how long each request has become, so the stock preparation waits for
the step to finish before it prepares the next one. After a plain step it is one token more, known at once; so
the next preparation can overlap with the step that still runs, as in a server without speculation.
"""

from __future__ import annotations

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
    """Draft input after a plain step. `next_seq_lens` [b]: lengths after the coming step if it is plain, too."""

    next_seq_lens: torch.Tensor | None = None

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
