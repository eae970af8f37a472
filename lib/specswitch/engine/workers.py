"""The two dynamic workers: the engine's own classes with one decision in front of the decode step.

`dynamic_class(stock)` returns a subclass of whatever class the engine chose, so the class name in the
liveness report still says which path runs. Idle batches, speculative steps and the prefills between them go to the
stock code untouched; the switch stands before a decode batch, and a prefill while off spares the draft.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from typing import Any

from sglang.srt.distributed import get_tp_group
from sglang.srt.layers.moe.utils import speculative_moe_a2a_backend_context, speculative_moe_backend_context
from sglang.srt.managers.schedule_batch import ModelWorkerBatch
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.speculative.eagle_info import EagleDraftExtendInput
from sglang.srt.speculative.eagle_worker import EAGLEWorker
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2

from specswitch.engine import stops, switch_args
from specswitch.engine.buffer_budget import fit_window, free_bytes, least_over_ranks
from specswitch.engine.counters import StepInfo
from specswitch.engine.draft_extend_queries import lay_out_by_accepted
from specswitch.engine.draft_kv_rows import DraftKvRows, why_not
from specswitch.engine.draft_state import merge_state
from specswitch.engine.draft_sync import DraftSync
from specswitch.engine.invariants import check_nothing_pending
from specswitch.engine.plain_draft_input import PlainDraftInput, note_lens
from specswitch.engine.plain_prefill import plain_prefill_v1, plain_prefill_v2
from specswitch.engine.plain_runtime import PlainRuntime
from specswitch.engine.plain_step_v1 import plain_step_v1
from specswitch.engine.plain_step_v2 import plain_step_v2
from specswitch.engine.policy import Mode, Switch

logger = logging.getLogger(__name__)

STEP_INFO = "specswitch_step"  # attribute of a result: what kind of step made it


class DynamicWorkerMixin:
    """The decision and the draft sync, shared by both paths."""

    switch: Switch
    sync: DraftSync
    plain_runtime: PlainRuntime
    kv_rows: DraftKvRows | None

    def init_switch(
        self, server_args: Any, draft_worker: Any, draft_runner: Any, rank: int, path: str
    ) -> None:
        """Set up the switch after the stock worker is complete and its KV pools are allocated.

        Raises:
            RuleError: the rule is impossible or not supported with these server arguments.
        """
        args = switch_args.of(server_args)
        self.switch = Switch(args.rule)
        self.plain_runtime = PlainRuntime(draft_worker.target_worker.model_runner, server_args.device)
        table = draft_worker.req_to_token_pool.req_to_token
        hidden_size = EagleDraftExtendInput.hidden_size_for(draft_worker)
        dtype = EagleDraftExtendInput.dtype_for(draft_worker)
        rule, window = fit_window(
            rule=args.sync,
            window=args.lazy_window,
            bytes_per_token=hidden_size * dtype.itemsize + 8,
            slots=table.shape[0],
            free=least_over_ranks(free_bytes(table.device), get_tp_group()),
        )
        self.sync = DraftSync(
            draft_runner=draft_runner,
            req_to_token=table,
            hidden_size=hidden_size,
            dtype=dtype,
            topk=server_args.speculative_eagle_topk,
            window=window,
            rule=rule,
            context=lambda: _draft_context(draft_worker, draft_runner),
        )
        reason = why_not(draft_runner, server_args)
        self.kv_rows = None if reason else DraftKvRows(draft_runner, self.sync.context)
        logger.info(
            "Draft KV while off: %s",
            f"whole draft forward ({reason})" if reason else "K and V only",
        )
        logger.info(
            "Dynamic speculation disable enabled: threshold=%s path=%s sync=%s tp_rank=%d "
            "(enable_threshold=%s dwell=%d ranges=%s lazy_window=%d buffer=%.1f MB)",
            args.rule.threshold,
            path,
            rule,
            rank,
            args.rule.enable_threshold,
            args.rule.dwell,
            args.rule.ranges,
            window,
            self.sync.buffer_bytes / 1e6,
        )
        logger.info(
            "Plain steps apply penalties, min_new_tokens and grammar once per token; speculative steps of this "
            "engine apply penalties once per verify step, so their strength depends on the mode."
        )

    def decide(self, batch_size: int) -> StepInfo:
        """Ask the policy for this step's mode."""
        mode, switched = self.switch.step(batch_size)
        return StepInfo(mode=mode, switched=switched)

    def bring_up_to_date(self, batch: Any, lens: list[int], mode: Mode) -> int:
        """Before a decode step: what is pending, brought into the draft KV cache as far as a step of `mode` needs it.

        A speculative step starts from nothing pending and gets its draft state. A plain one needs room in every
        window; nobody drafts next, so K and V will do where they can be had alone, unless the sync rule has changed.

        Returns:
            How many positions were brought in.
        """
        pending = self.sync.pending_rows(batch.reqs)
        if not pending or not (self.sync.must_catch_up(batch.reqs, lens) or mode is Mode.SPECULATIVE):
            return 0
        if mode is Mode.PLAIN and self.kv_rows is not None and self.sync.rule == "lazy":
            return self.kv_rows.write_pending(batch, lens, pending, self.sync)
        written = 0 if self.kv_rows is None else self.kv_rows.shorten(batch, lens, pending, self.sync)
        state = self.sync.catch_up(self.without_spec_info(batch), lens, pending)
        if mode is Mode.SPECULATIVE:
            merge_state(batch.spec_info, state)
        return written + state.tokens

    def without_spec_info(self, batch: Any) -> ModelWorkerBatch:
        """The decode batch as a forward takes it, without its draft input; `batch` stays as it is."""
        raise NotImplementedError

    def rows_only(self, batch: Any) -> DraftKvRows | None:
        """What writes the draft KV of this prefill, if the draft's whole forward can be spared; else None."""
        off = self.switch.mode is Mode.PLAIN and self.sync.rule == "lazy"
        return self.kv_rows if off and self.kv_rows is not None and self.kv_rows.takes(batch) else None


def _draft_context(draft_worker: Any, draft_runner: Any) -> contextlib.AbstractContextManager:
    stack = contextlib.ExitStack()
    stack.enter_context(draft_worker.draft_tp_context(draft_runner.tp_group))
    stack.enter_context(speculative_moe_backend_context())
    stack.enter_context(speculative_moe_a2a_backend_context())
    return stack


def _tag(result: GenerationBatchResult, info: StepInfo) -> GenerationBatchResult:
    setattr(result, STEP_INFO, info)
    return result


class DynamicEAGLEWorker(DynamicWorkerMixin, EAGLEWorker):
    """v1: works on the scheduler's ScheduleBatch, no overlap."""

    def __init__(self, server_args: Any, gpu_id: int, tp_rank: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(server_args, gpu_id, tp_rank, *args, **kwargs)
        lay_out_by_accepted(self.draft_extend_attn_backend)
        self.init_switch(server_args, self, self.draft_model_runner, tp_rank, "v1")

    def forward_batch_generation(self, batch: Any) -> GenerationBatchResult:
        """Prefill: the draft spared while off. Idle: stock. Decode: the policy chooses the shape."""
        if not batch.forward_mode.is_decode() or batch.is_extend_in_batch:
            if rows := self.rows_only(batch):
                return plain_prefill_v1(self, batch, rows, self.sync)
            self.sync.forget(batch.reqs)
            return super().forward_batch_generation(batch)
        info = self.decide(len(batch.reqs))
        lens = batch.seq_lens_cpu.tolist()
        info.synced = self.bring_up_to_date(batch, lens, info.mode)
        if info.mode is Mode.SPECULATIVE:
            check_nothing_pending(batch.reqs)
            result = super().forward_batch_generation(batch)
            # The stock step leaves finished requests out of its draft extend, yet caches all their tokens.
            self.sync.leave_out_finished(batch.reqs, lens)
            return _tag(result, info)
        result, synced = plain_step_v1(self, batch, self.sync)
        info.synced += synced
        return _tag(result, info)

    def without_spec_info(self, batch: Any) -> ModelWorkerBatch:
        spec_info, batch.spec_info = batch.spec_info, None
        try:
            return batch.get_model_worker_batch()
        finally:
            batch.spec_info = spec_info


class DynamicEAGLEWorkerV2(DynamicWorkerMixin, EAGLEWorkerV2):
    """v2: works on a ModelWorkerBatch under the overlap scheduler."""

    def __init__(self, server_args: Any, gpu_id: int, tp_rank: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(server_args, gpu_id, tp_rank, *args, **kwargs)
        self.init_switch(server_args, self.draft_worker, self.draft_worker.draft_runner, tp_rank, "v2")

    def forward_batch_generation(self, model_worker_batch: Any) -> GenerationBatchResult:
        """Prefill: the draft spared while off. Idle: stock. Decode: the policy chooses the shape."""
        batch = model_worker_batch
        lens = batch.seq_lens_cpu.tolist()
        if not batch.forward_mode.is_decode() or batch.is_extend_in_batch:
            stops.follow(batch.reqs)
            note_lens(batch.reqs, lens)
            if rows := self.rows_only(batch):
                return plain_prefill_v2(self, batch, rows, self.sync)
            self.sync.forget(batch.reqs)
            return super().forward_batch_generation(batch)
        info = self.decide(len(lens))
        if info.mode is Mode.SPECULATIVE and isinstance(batch.spec_info, PlainDraftInput):
            batch.spec_info.materialise(batch)
        info.synced = self.bring_up_to_date(batch, lens, info.mode)
        if info.mode is Mode.SPECULATIVE:
            check_nothing_pending(batch.reqs)
            note_lens(batch.reqs, None)
            return _tag(super().forward_batch_generation(batch), info)
        result, synced = plain_step_v2(self, batch, self.sync)
        info.synced += synced
        return _tag(result, info)

    def without_spec_info(self, batch: Any) -> ModelWorkerBatch:
        return dataclasses.replace(batch, spec_info=None)


_DYNAMIC: dict[type, type] = {EAGLEWorker: DynamicEAGLEWorker, EAGLEWorkerV2: DynamicEAGLEWorkerV2}


def dynamic_class(stock: type) -> type | None:
    """The dynamic subclass of the worker class that the engine chose; None if there is none for it."""
    return _DYNAMIC.get(stock)


def path_of(worker: Any) -> str:
    """Which path a worker object runs: v1, v2, or none for a plain target worker."""
    if isinstance(worker, EAGLEWorkerV2):
        return "v2"
    if isinstance(worker, EAGLEWorker):
        return "v1"
    return "none"
