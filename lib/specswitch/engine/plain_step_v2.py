"""The plain decode step on path v2: one target DECODE forward, one token per request, overlap-safe.

The v2 worker gets a `ModelWorkerBatch`; slots were over-allocated by the scheduler before the step, and the
result is read one step later. So nothing of the scheduler's is changed in place, and the result says its own
shape: one token per request, accept length one, stride one.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import ModelWorkerBatch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode

from specswitch.engine.draft_state import merge_state, placeholder_state
from specswitch.engine.draft_sync import DraftSync
from specswitch.engine.invariants import check_plain_forward
from specswitch.engine.plain_draft_input import PlainDraftInput, note_lens
from specswitch.engine.plain_tensors import inputs_of


def plain_step_v2(worker: Any, batch: ModelWorkerBatch, sync: DraftSync) -> tuple[GenerationBatchResult, int]:
    """Run one plain step.

    Args:
        worker: the v2 worker (its target worker, draft worker, device).
        batch: a decode batch whose `spec_info` is a resolved `EagleDraftInput`; read only.
        sync: what to do with the hidden states.

    Returns:
        The result for the scheduler (`next_token_ids` [b], `accept_lens` [b] ones), and the number of draft
        positions synced.
    """
    bs = len(batch.seq_lens)
    lens = batch.seq_lens_cpu.tolist()
    stream = torch.get_device_module(worker.device).current_stream()
    batch.seq_lens.record_stream(stream)  # made on the schedule stream, read on this one

    new_lens, done = _lens_after(batch, worker.device)
    new_lens.record_stream(stream)

    table = worker.req_to_token_pool.req_to_token
    bonus = batch.spec_info.bonus_tokens
    input_ids, pre_claimed = inputs_of(bonus, table, batch.req_pool_indices, batch.seq_lens)
    forward = dataclasses.replace(
        batch,
        input_ids=input_ids,
        out_cache_loc=pre_claimed,
        seq_lens=new_lens,  # another tensor: the scheduler still reads the old one
        seq_lens_cpu=batch.seq_lens_cpu + 1,
        seq_lens_sum=batch.seq_lens_sum + bs,
        spec_info=None,  # draft positions and indices must not leak into a DECODE
        capture_hidden_mode=CaptureHiddenMode.FULL,  # what the graphs were captured with
    )
    check_plain_forward(forward)
    with worker.plain_runtime.active():
        result = worker.target_worker.forward_batch_generation(forward)
    output = result.logits_output

    sync.remember(
        batch.reqs, lens, batch.req_pool_indices, batch.seq_lens, output.hidden_states, result.next_token_ids
    )
    output.hidden_states = None
    if batch.return_logprob:
        output.next_token_logprobs = output.next_token_logprobs.unsqueeze(
            1
        )  # [b] -> [b, 1]: a list per request

    pending = sync.rule == "lazy"
    draft_input = PlainDraftInput(
        bonus_tokens=result.next_token_ids,  # the future map has its own dtype
        new_seq_lens=new_lens,
        verify_done=done,
        capture_hidden_mode=CaptureHiddenMode.LAST,
        deferred=pending,
        **({} if pending else placeholder_state(worker.draft_worker, bs)),
    )
    synced = 0
    if sync.rule == "eager":
        state = sync.catch_up(forward, [n + 1 for n in lens])
        synced = state.tokens
        merge_state(draft_input, state)
    note_lens(batch.reqs, [n + 1 for n in lens])

    result.next_draft_input = draft_input
    result.accept_lens = torch.ones(bs, dtype=torch.int32)  # on the host, where the scheduler reads them
    result.speculative_num_draft_tokens = 1  # the stride with which the scheduler reads next_token_ids
    return result, synced


def _lens_after(batch: ModelWorkerBatch, device: str) -> tuple[torch.Tensor, Any]:
    """Lengths after this step, and the event to wait for before the scheduler may read them (None: none).

    Between plain steps the scheduler's stream has computed them already; the first one after a verify computes
    them here, on the forward stream.
    """
    draft_input = batch.spec_info
    if isinstance(draft_input, PlainDraftInput) and draft_input.next_seq_lens is not None:
        return draft_input.next_seq_lens, None
    new_lens = batch.seq_lens + 1
    done = torch.get_device_module(device).Event()
    done.record()
    return new_lens, done
