"""Where tokens live in the KV cache: the engine's slot-assigning kernels, vectorised.

`req_to_token` is the [requests, context] int32 table of the request pool: row = `req_pool_indices`, column =
position in the sequence, value = KV slot. Slots handed around are [N] int64.
"""

from __future__ import annotations

import torch

from specswitch.engine.cpu.kernels import stand_in
from specswitch.engine.cpu.ragged import exclusive_cumsum, ragged_ranges


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
    """Write freshly allocated draft slots into the table behind each sequence (v1 worker).

    With pages and topk > 1 every branch owns whole pages that begin with a copy of the sequence's last partial
    page: then the slot pairs to copy are put into source/target_cache_loc [(topk - 1) * sum(last partial page)],
    and the first B * topk * steps entries of out_cache_loc become the draft slots proper, [B, topk, steps].
    Stands for `sglang.srt.speculative.spec_utils.assign_draft_cache_locs`.
    """
    if page_size == 1 or topk == 1:
        columns = seq_lens[:, None] + torch.arange(topk * speculative_num_steps)
        slots = out_cache_loc.view(columns.shape)
        req_to_token[req_pool_indices[:, None], columns] = slots.to(req_to_token.dtype)
        return

    row, column = ragged_ranges(seq_lens, seq_lens + extend_lens)
    req_to_token[req_pool_indices[row], column] = out_cache_loc[: row.numel()].to(req_to_token.dtype)

    batch = len(seq_lens)
    partial = seq_lens % page_size
    page_start = seq_lens - partial
    branch_stride = num_new_pages_per_topk * page_size
    if duplicate_cache_len > 0:
        assert source_cache_loc is not None and target_cache_loc is not None
        # One range per (request, branch 1..topk-1), each as long as the request's partial page.
        branch = torch.arange(1, topk).repeat(batch)
        of_request = torch.arange(batch).repeat_interleave(topk - 1)
        first = page_start[of_request]
        pair_row, source_column = ragged_ranges(first, first + partial[of_request])
        pool_row = req_pool_indices[of_request[pair_row]]
        target_column = source_column + (branch * branch_stride[of_request])[pair_row]
        source_cache_loc.copy_(req_to_token[pool_row, source_column])
        target_cache_loc.copy_(req_to_token[pool_row, target_column])

    branch_start = seq_lens[:, None] + torch.arange(topk) * branch_stride[:, None]
    columns = branch_start[:, :, None] + torch.arange(speculative_num_steps)
    slots = req_to_token[req_pool_indices[:, None, None], columns].flatten()
    out_cache_loc[: slots.numel()] = slots


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

    accept_tokens: [B, num_draft_tokens] or flat; accept_lens: [B], bonus token included. Stands for `sglang.srt.speculative.eagle_info_v2.fill_bonus_tokens`.
    """
    last = torch.arange(len(accept_lens)) * num_draft_tokens + accept_lens - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


@stand_in
def fill_accepted_out_cache_loc(
    accept_index: torch.Tensor,
    out_cache_loc: torch.Tensor,
    accepted_out_cache_loc: torch.Tensor,
    size_upper: int,
) -> None:
    """Move the slots of accepted tokens (accept_index [M], -1 = rejected) to the front, in order.

    Stands for `sglang.srt.speculative.eagle_info_v2.fill_accepted_out_cache_loc`.
    """
    accepted = accept_index[accept_index != -1].long()
    accepted_out_cache_loc[: accepted.numel()] = out_cache_loc[accepted]


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


@stand_in
def get_target_cache_loc(
    tgt_cache_loc: torch.Tensor,
    to_free_slots: torch.Tensor,
    num_correct_drafts: torch.Tensor,
    to_free_num_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
    num_verify_tokens: int,
    num_verify_tokens_upper: int,
    bs_upper: int,
) -> None:
    """Split each request's verify slots: the first accepted ones to keep, the last ones to free.

    out_cache_loc: [B * num_verify_tokens]; num_correct_drafts, to_free_num_slots: [B]. Fills tgt_cache_loc
    [sum(correct + 1)] and to_free_slots [sum(to_free)]. Stands for
    `sglang.srt.speculative.spec_utils.get_target_cache_loc`.
    """
    row_start = torch.arange(len(num_correct_drafts)) * num_verify_tokens
    _, kept = ragged_ranges(row_start, row_start + num_correct_drafts + 1)
    tgt_cache_loc.copy_(out_cache_loc[kept])
    row_end = row_start + num_verify_tokens
    _, freed = ragged_ranges(row_end - to_free_num_slots, row_end)
    to_free_slots.copy_(out_cache_loc[freed])


@stand_in
def filter_finished_cache_loc_kernel(
    out_cache_loc: torch.Tensor,
    tgt_cache_loc: torch.Tensor,
    num_correct_drafts: torch.Tensor,
    num_accept_tokens_filter: torch.Tensor,
    bs_upper: int,
    num_verify_tokens_upper: int,
) -> None:
    """Keep the slots of unfinished requests: the first num_accept_tokens_filter[b] of each row.

    tgt_cache_loc: [sum(num_correct_drafts + 1)]; fills out_cache_loc [sum(num_accept_tokens_filter)]. Stands for
    `sglang.srt.speculative.spec_utils.filter_finished_cache_loc_kernel`.
    """
    row_start = exclusive_cumsum(num_correct_drafts + 1)
    _, kept = ragged_ranges(row_start, row_start + num_accept_tokens_filter)
    out_cache_loc.copy_(tgt_cache_loc[kept])
