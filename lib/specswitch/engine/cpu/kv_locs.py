"""Where tokens live in the KV cache: the engine's slot-assigning kernels, vectorised.

`req_to_token` is the [requests, context] int32 table of the request pool: row = `req_pool_indices`, column =
position in the sequence, value = KV slot. Slots handed around are [N] int64.
"""

from __future__ import annotations

import torch

from specswitch.engine.cpu.kernels import stand_in
from specswitch.engine.cpu.ragged import ragged_ranges


def assign_req_to_token_pool_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    batch_size: int,
) -> None:
    """Write slots into the table: row b gets columns [start_offset[b], end_offset[b]), in order.

    req_pool_indices, start_offset, end_offset: [B]; out_cache_loc: [sum(end - start)].
    Stands for `sglang.srt.speculative.spec_utils.assign_req_to_token_pool_func`.
    """
    row, column = ragged_ranges(start_offset, end_offset)
    req_to_token[req_pool_indices[row], column] = out_cache_loc[: row.numel()].to(req_to_token.dtype)


def assign_extend_cache_locs_func(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
    device: object,
) -> torch.Tensor:
    """Read slots from the table: columns [start_offset[b], end_offset[b]) of every row, end to end.

    Returns [sum(end - start)] int64. Stands for
    `sglang.srt.speculative.eagle_info_v2.assign_extend_cache_locs_func`, which returns None on a CPU.
    """
    row, column = ragged_ranges(start_offset, end_offset)
    return req_to_token[req_pool_indices[row], column].long()


@stand_in
def assign_draft_cache_locs_page_size_1(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    speculative_num_steps: int,
) -> None:
    """Read the topk * steps slots that follow each sequence into out_cache_loc [B * topk * steps].

    Stands for `sglang.srt.speculative.eagle_info_v2.assign_draft_cache_locs_page_size_1`.
    """
    columns = seq_lens[:, None] + torch.arange(topk * speculative_num_steps)
    out_cache_loc.copy_(req_to_token[req_pool_indices[:, None], columns].flatten())


@stand_in
def assign_draft_cache_locs(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_lens: torch.Tensor,
    num_new_pages_per_topk: torch.Tensor,
    out_cache_loc: torch.Tensor,
    source_cache_loc: torch.Tensor | None,
    target_cache_loc: torch.Tensor | None,
    last_page_lens_cumsum: torch.Tensor | None,
    duplicate_cache_len: int,
    pool_len: int,
    topk: int,
    speculative_num_steps: int,
    page_size: int,
    bs_upper: int,
    iter_upper: int,
) -> None:
    """Write the topk * steps freshly allocated draft slots into the table behind each sequence (v1 worker).

    out_cache_loc: [B * topk * steps]; only the first three arguments, topk and steps are used. Stands for
    `sglang.srt.speculative.spec_utils.assign_draft_cache_locs`. Raises NotImplementedError for trees over pages,
    where branches would need copies of the last page: the engine refuses that combination on this backend anyway.
    """
    if page_size > 1 and topk > 1:
        raise NotImplementedError(
            f"page_size={page_size} with topk={topk}: use page_size 1 or topk 1 on a CPU"
        )
    columns = seq_lens[:, None] + torch.arange(topk * speculative_num_steps)
    slots = out_cache_loc.view(columns.shape)
    req_to_token[req_pool_indices[:, None], columns] = slots.to(req_to_token.dtype)


@stand_in
def create_extend_after_decode_spec_info(
    accept_tokens: torch.Tensor,
    seq_lens: torch.Tensor,
    accept_lens: torch.Tensor,
    positions: torch.Tensor,
    bonus_tokens: torch.Tensor,
    bs_upper: int,
) -> None:
    """Positions of the accepted tokens, and the last token of each request, before the draft extend.

    accept_tokens, positions: [sum(accept_lens)]; seq_lens (after acceptance), accept_lens, bonus_tokens: [B].
    Fills positions and bonus_tokens. Stands for
    `sglang.srt.speculative.spec_utils.create_extend_after_decode_spec_info`.
    """
    _, position = ragged_ranges(seq_lens - accept_lens, seq_lens)
    positions.copy_(position)
    bonus_tokens.copy_(accept_tokens[accept_lens.cumsum(0) - 1])


@stand_in
def fill_bonus_tokens(
    accept_tokens: torch.Tensor,
    accept_lens: torch.Tensor,
    bonus_tokens: torch.Tensor,
    num_draft_tokens: int,
) -> None:
    """Last accepted token of each request out of rows of num_draft_tokens; fills bonus_tokens [B] (v2 worker).

    accept_tokens: [B, num_draft_tokens] or flat; accept_lens: [B], bonus token included. Stands for
    `sglang.srt.speculative.eagle_info_v2.fill_bonus_tokens`.
    """
    last = torch.arange(len(accept_lens)) * num_draft_tokens + accept_lens - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


@stand_in
def align_evict_mask_to_page_size(
    seq_lens: torch.Tensor, evict_mask: torch.Tensor, page_size: int, num_draft_tokens: int, block_size: int
) -> None:
    """Unmark the draft slots that share a page with kept tokens, so that only whole pages are freed.

    seq_lens: [B] before acceptance; evict_mask: [B * num_draft_tokens] bool, True = reject; changed in place.
    The page to spare is the one of the last kept token. Stands for
    `sglang.srt.speculative.spec_utils.align_evict_mask_to_page_size`.
    """
    mask = evict_mask.view(-1, num_draft_tokens)
    kept = num_draft_tokens - mask.sum(1)
    page_start = (seq_lens + kept - 1) // page_size * page_size - seq_lens
    offset = torch.arange(num_draft_tokens)
    same_page = (offset >= page_start[:, None]) & (offset < page_start[:, None] + page_size)
    mask.masked_fill_(same_page, False)
