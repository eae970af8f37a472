"""What must hold of a decode batch between two steps; `--specswitch-check` verifies it after each one.

The engine's own strict memory check sees leaks but not which bookkeeping went wrong, and it skips topk > 1.
`check_plain_forward` and `check_nothing_pending` cost nothing and run in every step of their kind.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.speculative.eagle_info import EagleDraftInput

from specswitch.engine.draft_sync import draft_len


class InvariantError(AssertionError):
    """A named invariant is broken; the message says which, for which request, with the values."""


def _require(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise InvariantError(f"{name}: {detail}")


def check_plain_forward(forward: Any) -> None:
    """Verify that the batch of a plain step is what a plain server would run.

    Raises:
        InvariantError: draft state would leak into the forward, or it is not one token per request.
    """
    _require(forward.spec_info is None, "plain_step_has_no_spec_info", type(forward.spec_info).__name__)
    mode, rows, tokens = forward.forward_mode, len(forward.req_pool_indices), len(forward.input_ids)
    _require(
        mode.is_decode() and rows == tokens == len(forward.out_cache_loc),
        "plain_step_is_one_token_decode",
        f"{mode.name}, {rows} requests, {tokens} tokens, {len(forward.out_cache_loc)} slots",
    )


def check_nothing_pending(reqs: list[Any]) -> None:
    """Verify that a speculative step starts with draft KV at every committed position (`stale` keeps no account).

    Raises:
        InvariantError: drafts would be made from holes, and the window's columns taken for other positions'.
    """
    pending = [req.rid for req in reqs if draft_len(req) is not None]
    _require(not pending, "speculative_step_has_nothing_pending", f"{pending}")


def check_batch(scheduler: Any, batch: Any) -> None:
    """Verify the live requests of a batch whose result has just been processed.

    Raises:
        InvariantError: the first broken invariant, by name.
    """
    live = [req for req in batch.reqs if not req.finished() and not req.is_retracted]
    slots = [r.req_pool_idx for r in live]
    _require(len(set(slots)) == len(live), "distinct_slots", f"{slots}")
    launched = _launched(scheduler, batch)
    for req in live:
        _check_lengths(req, in_flight=any(r is req for r in launched))
        _check_pending(scheduler, req)
    _check_kv_slots(scheduler, live)
    _check_pool(scheduler, batch)
    if scheduler.spec_algorithm.is_none():
        return
    if scheduler.enable_overlap:
        _check_launched(scheduler)
    else:
        _check_tensors_v1(batch)
        _check_spec_info_v1(scheduler)


def committed_tokens(req: Any) -> int:
    """Positions of a live request that have KV once its newest result is processed: all but the newest token."""
    return len(req.origin_input_ids) + len(req.output_ids) - 1


def _launched(scheduler: Any, batch: Any) -> list[Any]:
    """Requests of the decode step that runs while `batch` is processed (overlap only)."""
    current = scheduler.cur_batch
    if not scheduler.enable_overlap or current is None or not current.forward_mode.is_decode():
        return []
    return current.reqs


def _check_lengths(req: Any, in_flight: bool) -> None:
    # Under overlap one slot is claimed when the next step is prepared.
    expected = committed_tokens(req) + in_flight
    _require(
        req.kv_committed_len == expected,
        "committed_is_tokens_minus_bonus",
        f"{req.rid}: committed {req.kv_committed_len}, expected {expected}",
    )
    _require(
        req.kv_allocated_len >= req.kv_committed_len,
        "allocated_covers_committed",
        f"{req.rid}: allocated {req.kv_allocated_len}, committed {req.kv_committed_len}",
    )


def _check_pending(scheduler: Any, req: Any) -> None:
    start = draft_len(req)
    if start is None:
        return
    _require(
        len(req.origin_input_ids) - 1 <= start <= req.kv_committed_len,
        "catching_up_begins_at_the_prompts_end_or_later",
        f"{req.rid}: draft_len {start}, prompt {len(req.origin_input_ids)}, committed {req.kv_committed_len}",
    )
    # With a grammar a result is processed before the step that was prepared meanwhile is launched and catches up.
    prepared_only = scheduler.enable_overlap and not scheduler.result_queue
    end = committed_tokens(req) if prepared_only else req.kv_committed_len
    pending, window = end - start, scheduler.model_worker.sync.window
    _require(
        pending <= window,
        "pending_tokens_fit_the_window",
        f"{req.rid}: {pending} pending, window {window}",
    )


def _check_kv_slots(scheduler: Any, live: list[Any]) -> None:
    """One gather for all requests: on a GPU each look at the table waits for the device."""
    table = scheduler.req_to_token_pool.req_to_token
    allocator = scheduler.token_to_kv_pool_allocator
    spans = [(r.req_pool_idx, range(r.cache_protected_len, r.kv_committed_len)) for r in live]
    rows = torch.tensor([slot for slot, span in spans for _ in span], dtype=torch.int64)
    columns = torch.tensor([i for _, span in spans for i in span], dtype=torch.int64)
    on_device = table[rows.to(table.device), columns.to(table.device)].to(torch.int64)
    free = torch.cat([allocator.free_pages, allocator.release_pages])
    pages_in_use = torch.unique(on_device // allocator.page_size)
    freed = set(pages_in_use[torch.isin(pages_in_use, free)].tolist())
    slots, seen, first = on_device.tolist(), set[int](), 0
    for req, (_, span) in zip(live, spans, strict=True):
        own = slots[first : first + len(span)]
        first += len(span)
        _require(0 not in own, "committed_slots_written", f"{req.rid}: slot 0 among {own}")
        _require(len(set(own)) == len(own), "slots_of_a_request_differ", f"{req.rid}: {own}")
        shared = seen & set(own)
        _require(not shared, "slots_belong_to_one_request", f"{req.rid}: {sorted(shared)}")
        seen |= set(own)
        lost = sorted(freed & {slot // allocator.page_size for slot in own})
        _require(not lost, "committed_slots_are_not_free", f"{req.rid}: pages {lost}")


def _check_pool(scheduler: Any, batch: Any) -> None:
    """Free + cached + held by requests = all; the engine's busy check says so too, but not for topk > 1."""
    if scheduler.is_hybrid_swa or scheduler.is_hybrid_ssm or scheduler.session_controller.sessions:
        return
    batches = (batch, scheduler.running_batch, scheduler.cur_batch, scheduler.last_batch)
    holders = {id(r): r for b in batches if b is not None for r in b.reqs}
    if scheduler.chunked_req is not None:
        holders[id(scheduler.chunked_req)] = scheduler.chunked_req
    page = scheduler.server_args.page_size
    held = sum(
        -(-r.kv_allocated_len // page) * page - r.cache_protected_len
        for r in holders.values()
        if r.req_pool_idx is not None and not r.kv_committed_freed
    )
    free, cache = scheduler.token_to_kv_pool_allocator.available_size(), scheduler.tree_cache
    evictable, protected = cache.evictable_size(), cache.protected_size()
    _require(
        free + evictable + protected + held == scheduler.max_total_num_tokens,
        "pool_adds_up",
        f"free {free} + evictable {evictable} + protected {protected} + held {held} "
        f"!= {scheduler.max_total_num_tokens}",
    )


def _check_launched(scheduler: Any) -> None:
    """v2: the step in flight was launched at the committed lengths and makes 1 to draft-tokens more."""
    current = scheduler.cur_batch
    if current is None or not current.forward_mode.is_decode():
        return
    before, after = current.seq_lens_cpu.tolist(), current.seq_lens.tolist()
    most = scheduler.server_args.speculative_num_draft_tokens
    for i, req in enumerate(current.reqs):
        if req.finished() or req.is_retracted:
            continue
        _require(
            before[i] == committed_tokens(req) <= after[i] <= before[i] + most,
            "step_launched_at_the_committed_length",
            f"{req.rid}: launched at {before[i]}, then {after[i]}, committed {committed_tokens(req)}",
        )


def _check_tensors_v1(batch: Any) -> None:
    """v1: the batch's lengths, on both sides, are the requests' own."""
    lens, lens_cpu = batch.seq_lens.tolist(), batch.seq_lens_cpu.tolist()
    for i, req in enumerate(batch.reqs):
        if req.finished() or req.is_retracted:
            continue
        _require(
            lens[i] == lens_cpu[i] == committed_tokens(req),
            "batch_lengths_are_the_requests",
            f"{req.rid}: device {lens[i]}, host {lens_cpu[i]}, committed {committed_tokens(req)}",
        )


def _check_spec_info_v1(scheduler: Any) -> None:
    """v1: between steps the running batch carries one row of draft input per unfinished request, in order."""
    running = scheduler.running_batch
    if running is None or running.is_empty() or running.spec_info is None:
        return
    info = running.spec_info
    _require(isinstance(info, EagleDraftInput), "spec_info_is_draft_input", type(info).__name__)
    unfinished = [r for r in running.reqs if not r.finished()]
    topk = scheduler.server_args.speculative_eagle_topk
    shapes = {
        "topk_p": (torch.float32, (len(unfinished), topk)),
        "topk_index": (torch.int64, (len(unfinished), topk)),
        "hidden_states": (None, (len(unfinished), EagleDraftInput.hidden_size_for(scheduler.model_worker))),
        "bonus_tokens": (None, (len(unfinished),)),
    }
    for field, (dtype, shape) in shapes.items():
        value = getattr(info, field)
        _require(
            value is not None and tuple(value.shape) == shape and dtype in (None, value.dtype),
            "spec_info_has_a_row_per_unfinished_request",
            f"{field}: {None if value is None else (value.dtype, tuple(value.shape))}, expected {shape}",
        )
    newest = [r.output_ids[-1] for r in unfinished]
    _require(
        info.bonus_tokens.tolist() == newest,
        "bonus_token_is_the_newest",
        f"bonus {info.bonus_tokens.tolist()}, newest {newest}",
    )
