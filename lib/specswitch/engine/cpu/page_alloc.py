"""Handing out KV pages: the paged allocator's kernels, vectorised.

A slot is page * page_size + offset. Free pages are taken from the front of `free_pages` in request order; the
allocator itself drops them afterwards, and throws the result away if there were too few.
"""

from __future__ import annotations

import torch

from specswitch.engine.cpu.kernels import stand_in
from specswitch.engine.cpu.ragged import exclusive_cumsum, ragged_ranges


@stand_in
def alloc_extend_kernel(
    pre_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out_indices: torch.Tensor,
    bs_upper: int,
    page_size: int,
) -> None:
    """Slots for positions [pre_lens[b], seq_lens[b]) of every request: rest of the last page, then new pages.

    pre_lens, seq_lens, last_loc (slot of position pre_lens - 1): [B]; free_pages: [F] int64; fills out_indices
    [sum(seq_lens - pre_lens)] int64, or leaves it alone if the free pages do not suffice. Stands for
    `sglang.srt.mem_cache.allocator.alloc_extend_kernel`.
    """
    pages_before = (pre_lens.long() + page_size - 1) // page_size
    new_pages = (seq_lens.long() + page_size - 1) // page_size - pages_before
    if int(new_pages.sum()) > free_pages.numel():
        return
    row, position = ragged_ranges(pre_lens, seq_lens)
    page_rank = position // page_size - pages_before[row]
    in_last_page = page_rank < 0
    continued = last_loc[row] + 1 + position - pre_lens[row]
    if free_pages.numel() == 0:
        out_indices.copy_(continued)
        return
    page = free_pages[(exclusive_cumsum(new_pages)[row] + page_rank).clamp(min=0)]
    out_indices.copy_(torch.where(in_last_page, continued, page * page_size + position % page_size))


@stand_in
def alloc_decode_kernel(
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    out_indices: torch.Tensor,
    bs_upper: int,
    page_size: int,
) -> None:
    """One more slot per request, for position seq_lens[b] - 1. Shapes as in `alloc_extend_kernel`.

    Stands for `sglang.srt.mem_cache.allocator.alloc_decode_kernel`.
    """
    alloc_extend_kernel.fn(seq_lens - 1, seq_lens, last_loc, free_pages, out_indices, bs_upper, page_size)
