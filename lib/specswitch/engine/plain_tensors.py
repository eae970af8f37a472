"""The small tensors around a plain step's forward: each group of them made by one kernel on a GPU.

Between two decode graphs the GPU runs nothing but such tensors, one behind the other, and each costs more to begin
than to compute: a dozen of them are one percent of a step of 5 ms. The torch operations here say what is computed and
are what runs on a CPU; `plain_kernels` does the same in one kernel for each function.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

import torch

logger = logging.getLogger(__name__)


@functools.cache
def _kernels() -> Any:
    """The kernels; imported on a GPU only, where Triton is there."""
    from specswitch.engine import plain_kernels

    return plain_kernels


def inputs_of(
    bonus: torch.Tensor, table: torch.Tensor, slots: torch.Tensor, lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a plain step reads and where it writes, one position per request.

    Args:
        bonus: [b] newest token of each request, not yet in the KV cache (i32 or i64).
        table: [slots, max_len] i32, the engine's table of KV slots.
        slots: [b] request slots. lens: [b] lengths before the step, which is the position written.

    Returns:
        Token ids [b] i64 and KV slots [b] i64.
    """
    if table.is_cuda:
        return _kernels().inputs_of(bonus, table, slots, lens)
    return bonus.to(torch.int64), table[slots, lens].to(torch.int64)


def keep_newest(
    ring_hidden: torch.Tensor,
    ring_tokens: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    hidden: torch.Tensor,
    next_tokens: torch.Tensor,
) -> None:
    """Write one position of each request into the ring, over the one a window before it.

    Args:
        ring_hidden: [slots, window, H]. ring_tokens: [slots, window] i64. Both contiguous.
        slots: [b] request slots, all different. positions: [b].
        hidden: [b, H], rows contiguous. next_tokens: [b] tokens sampled there (i32 or i64).
    """
    if ring_hidden.is_cuda:
        _kernels().keep_newest(ring_hidden, ring_tokens, slots, positions, hidden, next_tokens)
        return
    column = positions % ring_hidden.shape[1]
    ring_hidden[slots, column] = hidden.to(ring_hidden.dtype)
    ring_tokens[slots, column] = next_tokens.to(torch.int64)


def compile_kernels(ring_hidden: torch.Tensor, ring_tokens: torch.Tensor, table: torch.Tensor) -> None:
    """Compile what a server with these tensors will call, so that no step waits for it. On a CPU: nothing.

    Row 0 of the ring is written, so call it before there are requests.
    """
    if not table.is_cuda:
        return
    tic = time.perf_counter()
    one = torch.zeros(1, dtype=torch.int64, device=table.device)
    hidden = torch.zeros((1, ring_hidden.shape[2]), dtype=ring_hidden.dtype, device=table.device)
    for dtype in (torch.int32, torch.int64):
        token = one.to(dtype)
        inputs_of(token, table, one, one)
        keep_newest(ring_hidden, ring_tokens, one, one, hidden, token)
    logger.info("Kernels of plain steps: compiled in %.2f s", time.perf_counter() - tic)
