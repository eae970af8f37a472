"""Positions of the tokens of an extend batch, without a Python loop over requests."""

from __future__ import annotations

import torch

from specswitch.engine.cpu.ragged import exclusive_cumsum, ragged_ranges


def compute_position_torch(
    extend_prefix_lens: torch.Tensor, extend_seq_lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions prefix .. prefix + extend - 1 of every request, end to end, and where each request starts.

    extend_prefix_lens, extend_seq_lens: [B] int32. Returns [sum(extend)] int64 and [B] of the input's dtype. Prefix
    lengths of another batch size count as 0, as in the engine's Triton kernel: the v1 draft extend passes the ones
    of the last prefill and does not use the result. Otherwise the same result as
    `sglang.srt.model_executor.forward_batch_info.compute_position_torch`, without its loop over requests.
    """
    if extend_prefix_lens.shape != extend_seq_lens.shape:
        extend_prefix_lens = torch.zeros_like(extend_seq_lens)
    _, position = ragged_ranges(extend_prefix_lens, extend_prefix_lens + extend_seq_lens)
    return position, exclusive_cumsum(extend_seq_lens).to(extend_seq_lens.dtype)
