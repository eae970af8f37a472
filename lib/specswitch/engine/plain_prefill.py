"""A prefill while speculation is off: the target's forward, and of the draft only the prompt's K and V.

The stock prefill would compute a draft state for each new request and carry it along; off, a request starts with
its last position pending, like one that has made plain steps.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.managers.schedule_batch import ModelWorkerBatch, ScheduleBatch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode
from sglang.srt.speculative.eagle_info import EagleDraftInput

from specswitch.engine.draft_kv_rows import DraftKvRows
from specswitch.engine.draft_state import placeholder_state
from specswitch.engine.draft_sync import DraftSync
from specswitch.engine.plain_draft_input import PlainDraftInput


def plain_prefill_v1(
    worker: Any, batch: ScheduleBatch, rows: DraftKvRows, sync: DraftSync
) -> GenerationBatchResult:
    """Prefill a `ScheduleBatch`, leaving it as the stock v1 prefill does, with an empty draft state."""
    starts, counts = list(batch.prefix_lens), list(batch.extend_lens)
    output, next_tokens, _, can_run_cuda_graph = worker.forward_target_extend(batch)
    rows.write(batch, starts, counts, output.hidden_states, next_tokens, sync)
    batch.return_hidden_states = False
    batch.spec_info = EagleDraftInput(
        bonus_tokens=next_tokens,
        num_tokens_per_req=1,
        num_tokens_for_logprob_per_req=1,
        capture_hidden_mode=CaptureHiddenMode.LAST,
        **placeholder_state(worker, len(counts)),
    )
    return GenerationBatchResult(
        logits_output=output,
        next_token_ids=next_tokens,
        num_correct_drafts=0,
        can_run_cuda_graph=can_run_cuda_graph,
    )


def plain_prefill_v2(
    worker: Any, batch: ModelWorkerBatch, rows: DraftKvRows, sync: DraftSync
) -> GenerationBatchResult:
    """Prefill a `ModelWorkerBatch`; of the draft input only the bonus tokens exist."""
    batch.capture_hidden_mode = CaptureHiddenMode.FULL
    result = worker.target_worker.forward_batch_generation(batch)
    rows.write(
        batch,
        batch.extend_prefix_lens,
        batch.extend_seq_lens,
        result.logits_output.hidden_states,
        result.next_token_ids,
        sync,
    )
    result.next_draft_input = PlainDraftInput(
        bonus_tokens=result.next_token_ids,
        new_seq_lens=batch.seq_lens,
        num_tokens_per_req=1,
        num_tokens_for_logprob_per_req=1,
        capture_hidden_mode=CaptureHiddenMode.LAST,
        deferred=True,
    )
    return result
