"""The plain decode step on path v1: one target DECODE forward, one token per request.

The v1 worker gets the scheduler's own `ScheduleBatch` and must leave it as the scheduler expects it after a
verify: requests advanced, the batch's lengths and slots moved by one token, `spec_info` an `EagleDraftInput`
for the unfinished rows. Every line that the engine relies on is named below.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT, ScheduleBatch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.mem_cache.common import alloc_for_decode
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.eagle_info import EagleDraftInput

from specswitch.engine.draft_state import merge_state, placeholder_state
from specswitch.engine.draft_sync import DraftSync
from specswitch.engine.invariants import check_plain_forward

logger = logging.getLogger(__name__)


def plain_step_v1(worker: Any, batch: ScheduleBatch, sync: DraftSync) -> tuple[GenerationBatchResult, int]:
    """Run one plain step and leave `batch` ready for either kind of next step.

    Args:
        worker: the v1 worker (its target worker, draft runner, topk, device).
        batch: a decode batch with an `EagleDraftInput` in `spec_info`; changed in place.
        sync: what to do with the hidden states.

    Returns:
        The result for the scheduler (`next_token_ids` [b]), and the number of draft positions synced.
    """
    reqs = batch.reqs
    lens = batch.seq_lens_cpu.tolist()
    positions = batch.seq_lens
    bonus = batch.spec_info.bonus_tokens.to(torch.int64)

    for req in reqs:
        req.decode_batch_idx += 1
    if batch.sampling_info.penalizer_orchestrator.is_required:
        # Penalties count every token: here each step makes one, so nothing is relaxed.
        batch.sampling_info.penalizer_orchestrator.cumulate_output_tokens(bonus)

    batch.input_ids = bonus
    batch.out_cache_loc = alloc_for_decode(batch, token_per_req=1)  # writes req_to_token at the OLD lengths
    batch.seq_lens = batch.seq_lens + 1  # only after the allocation, and another tensor: `positions` stays
    batch.seq_lens_cpu = batch.seq_lens_cpu + 1
    batch.seq_lens_sum = sum(lens) + len(lens)
    batch.spec_info = None  # draft positions and indices must not leak into a DECODE
    batch.return_hidden_states = False

    forward = batch.get_model_worker_batch()
    forward.capture_hidden_mode = CaptureHiddenMode.FULL  # what the graphs were captured with
    check_plain_forward(forward)
    with worker.plain_runtime.active():
        result = worker.target_worker.forward_batch_generation(forward)
    output = result.logits_output

    sync.remember(reqs, lens, batch.req_pool_indices, positions, output.hidden_states, result.next_token_ids)
    output.hidden_states = None

    # What needs the GPU is launched before the tokens are waited for: afterwards it would stand idle.
    draft_input = EagleDraftInput(
        bonus_tokens=result.next_token_ids,
        capture_hidden_mode=CaptureHiddenMode.LAST,
        **placeholder_state(worker, len(reqs)),
    )
    if batch.return_logprob:
        _append_logprobs(batch, result)
    unfinished = _append_tokens(batch, result.next_token_ids.tolist())
    synced = _leave_draft_input(worker, batch, sync, draft_input, unfinished)

    result.num_correct_drafts = 0
    result.num_correct_drafts_per_req_cpu = [0] * len(reqs)
    return result, synced


def _append_logprobs(batch: ScheduleBatch, result: GenerationBatchResult) -> None:
    """v1 workers hand out logprobs themselves, as plain numbers; one entry per output token and request."""
    output = result.logits_output
    values, ids = output.next_token_logprobs.tolist(), result.next_token_ids.tolist()
    for i, req in enumerate(batch.reqs):
        if not req.return_logprob:
            continue
        req.output_token_logprobs_val.append(values[i])
        req.output_token_logprobs_idx.append(ids[i])
        if req.top_logprobs_num > 0:
            req.output_top_logprobs_val.append(output.next_token_top_logprobs_val[i].tolist())
            req.output_top_logprobs_idx.append(output.next_token_top_logprobs_idx[i].tolist())
        if req.token_ids_logprob is not None:
            req.output_token_ids_logprobs_val.append(output.next_token_token_ids_logprobs_val[i].tolist())
            req.output_token_ids_logprobs_idx.append(output.next_token_token_ids_logprobs_idx[i])


def _append_tokens(batch: ScheduleBatch, tokens: list[int]) -> list[int]:
    """Append one token per request and do what a verify does per accepted token; rows still unfinished."""
    think_end = batch.model_config.think_end_id
    unfinished = []
    for i, (req, token) in enumerate(zip(batch.reqs, tokens, strict=True)):
        req.output_ids.append(token)
        if req.require_reasoning and think_end is not None:
            req.update_reasoning_tokens(token, think_end)
        req.check_finished()
        if not req.finished() and req.grammar is not None:
            _advance_grammar(req, token)
        req.kv_committed_len += 1
        req.kv_allocated_len = req.kv_committed_len
        if not req.finished():
            unfinished.append(i)
    return unfinished


def _advance_grammar(req: Any, token: int) -> None:
    """Feed the grammar; a token that it refuses aborts this request in its next step, as on a plain server."""
    try:
        req.grammar.accept_token(token)
    except ValueError as e:
        logger.error("Request %s: the grammar refused token %d: %s", req.rid, token, e)
        req.to_finish = FINISH_ABORT()
    else:
        req.check_finished()


def _leave_draft_input(
    worker: Any, batch: ScheduleBatch, sync: DraftSync, draft_input: EagleDraftInput, unfinished: list[int]
) -> int:
    """Install the next step's draft input for the unfinished rows only (the scheduler slices, not filters)."""
    if not unfinished:
        worker._draft_preprocess_idle(batch)
        return 0
    if len(unfinished) < len(batch.reqs):
        rows = torch.tensor(unfinished, device=draft_input.bonus_tokens.device)
        draft_input.bonus_tokens = draft_input.bonus_tokens[rows]
        for name, value in placeholder_state(worker, len(unfinished)).items():
            setattr(draft_input, name, value)
    synced = 0
    if sync.rule == "eager":
        state = sync.catch_up(batch.get_model_worker_batch(), batch.seq_lens_cpu.tolist(), unfinished)
        synced = state.tokens
        state.rows = list(range(len(unfinished)))
        merge_state(draft_input, state)
    batch.spec_info = draft_input
    return synced
