"""The hooks on SGLang's scheduler: counting, honest acceptance numbers, state, and the commit length.

Each function is one hook; `plugin.py` says where it is attached. They keep to three rules: the stock function
does the work, a plain step never enters the engine's acceptance statistics, and what a step was is read from
its result, never from the worker, which may be a step ahead.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from typing import Any

from sglang.srt.managers.io_struct import SetInternalStateReqOutput

from specswitch.engine import control, liveness, switch_args
from specswitch.engine.counters import Counters, StepInfo
from specswitch.engine.draft_sync import rows_of
from specswitch.engine.invariants import check_batch
from specswitch.engine.policy import Mode, Rule, RuleError
from specswitch.engine.prometheus import Exporter
from specswitch.engine.workers import STEP_INFO, DynamicWorkerMixin

logger = logging.getLogger(__name__)


def counters_of(scheduler: Any) -> Counters:
    """The scheduler's counters, made on first use."""
    counters = getattr(scheduler, "specswitch_counters", None)
    if counters is None:
        counters = Counters(scheduler.tp_rank, os.environ.get("SPECSWITCH_STEPS_DIR"))
        scheduler.specswitch_counters = counters
        scheduler.specswitch_mode = Mode.PLAIN if scheduler.spec_algorithm.is_none() else Mode.SPECULATIVE
        scheduler.specswitch_exporter = (
            Exporter(scheduler.metrics_collector.labels)
            if scheduler.current_scheduler_metrics_enabled
            else None
        )
        scheduler.specswitch_check = switch_args.of(scheduler.server_args).check
    return counters


def _info_of(scheduler: Any, result: Any) -> StepInfo:
    """What kind of step made this result; stock workers do not say, their path does."""
    info = getattr(result, STEP_INFO, None)
    if info is None:
        info = StepInfo(Mode.PLAIN if scheduler.spec_algorithm.is_none() else Mode.SPECULATIVE)
    return info


def process_decode(original: Callable, scheduler: Any, batch: Any, result: Any) -> Any:
    """Around `process_batch_result_decode`: count the step once its result is known."""
    info = _info_of(scheduler, result)
    live = _live_rows(scheduler, batch)
    scheduler.specswitch_current = info
    try:
        answer = original(scheduler, batch, result)
    finally:
        scheduler.specswitch_current = None
    bs = len(batch.reqs)
    proposed = accepted = 0
    if info.mode is Mode.SPECULATIVE:
        proposed = len(live) * (scheduler.server_args.speculative_num_draft_tokens - 1)
        drafts = result.num_correct_drafts_per_req_cpu
        accepted = result.num_correct_drafts if len(live) == bs else sum(drafts[i] for i in live)
    now = counters_of(scheduler).record(info, bs, proposed, accepted, dead=bs - len(live))
    scheduler.specswitch_mode = info.mode
    _export_if_due(scheduler, now)
    if scheduler.specswitch_check:
        check_batch(scheduler, batch)
    return answer


def _live_rows(scheduler: Any, batch: Any) -> list[int]:
    """Rows whose tokens count: under overlap a request that has ended is still in the step launched meanwhile."""
    if not scheduler.enable_overlap:
        return list(range(len(batch.reqs)))
    return [i for i, req in enumerate(batch.reqs) if req.finished_reason is None and not req.is_retracted]


def _export_if_due(scheduler: Any, now: float) -> None:
    exporter = scheduler.specswitch_exporter
    if exporter is None or not exporter.due(now):
        return
    worker, counters = scheduler.model_worker, scheduler.specswitch_counters
    dynamic = isinstance(worker, DynamicWorkerMixin)
    rule = None if scheduler.spec_algorithm.is_none() else Rule()
    exporter.update(
        now,
        counters.totals,
        counters.running_batch,
        scheduler.specswitch_mode,
        worker.switch.switches if dynamic else 0,
        worker.switch.rule if dynamic else rule,
    )


def resolve_overlap(original: Callable, scheduler: Any, result: Any, batch: Any) -> list[list[int]]:
    """Around `_resolve_spec_overlap_tokens` (v2): a plain result is one token per request and no verify."""
    if _info_of(scheduler, result).mode is Mode.SPECULATIVE:
        return original(scheduler, result, batch)
    result.num_correct_drafts = 0
    result.num_correct_drafts_per_req_cpu = [0] * len(batch.reqs)
    for req in batch.reqs:
        # The slot was pre-claimed when the step was prepared: kept by a live request, given back by one that
        # had finished before this result came. A retracted request was reset already.
        if req.finished() and not req.is_retracted:
            req.kv_committed_len -= 1
    return [[token] for token in result.next_token_ids.tolist()]


def spec_metrics(original: Callable, scheduler: Any, bs: int, num_correct_drafts: int) -> None:
    """Around `update_spec_metrics`: only verify steps count towards the engine's accept length."""
    current = getattr(scheduler, "specswitch_current", None)
    if current is None or current.mode is Mode.SPECULATIVE:
        original(scheduler, bs, num_correct_drafts)


def decode_stats(original: Callable, scheduler: Any, *args: Any, **kwargs: Any) -> Any:
    """Around `report_decode_stats`: an interval without any verify has no accept length, not a division by zero.

    The log line then says `accept len: nan`; the engine's running totals stay as they were.
    """
    if scheduler.spec_algorithm.is_none() or scheduler.spec_num_forward_ct > 0:
        return original(scheduler, *args, **kwargs)
    totals = scheduler.spec_total_num_accept_tokens, scheduler.spec_total_num_forward_ct
    scheduler.spec_num_accept_tokens, scheduler.spec_num_forward_ct = math.nan, 1
    try:
        return original(scheduler, *args, **kwargs)
    finally:
        scheduler.spec_num_accept_tokens = scheduler.spec_num_forward_ct = 0
        scheduler.spec_total_num_accept_tokens, scheduler.spec_total_num_forward_ct = totals


def on_idle(scheduler: Any) -> None:
    """Before `on_idle`: the next step's duration must not contain the wait."""
    if scheduler.is_fully_idle():
        counters_of(scheduler).idle()
        _export_if_due(scheduler, time.monotonic())


def commit_len(length: int, req: Any) -> int:
    """After `Req._cache_commit_len`: positions without draft KV stay out of the prefix cache.

    They then count as over-allocated and are freed with those.
    """
    valid = rows_of(req)
    return length if valid is None else min(length, valid)


def get_internal_state(answer: Any, scheduler: Any, recv_req: Any) -> Any:
    """After `get_internal_state`: add our report; runs on every rank."""
    counters_of(scheduler)
    answer.internal_state.pop(switch_args.ATTRIBUTE, None)
    answer.internal_state[control.KEY] = liveness.report_of_all_ranks(scheduler)
    return answer


def set_internal_state(original: Callable, scheduler: Any, recv_req: Any) -> Any:
    """Around `set_internal_state`: take our key, leave every other request to the engine."""
    if control.KEY not in recv_req.server_args:
        return original(scheduler, recv_req)
    error = None
    try:
        if len(recv_req.server_args) > 1:
            raise RuleError(f"send {control.KEY!r} alone, not with other keys")
        control.change_rule(scheduler.model_worker, recv_req.server_args[control.KEY])
    except (RuleError, TypeError) as e:
        error = str(e)
        logger.warning("Rule change refused: %s", error)
    scheduler.specswitch_refusal = error
    return SetInternalStateReqOutput(updated=error is None, server_args={"error": error})


def request_metrics(original: Callable, manager: Any, meta_info: dict, recv_obj: Any, i: int) -> None:
    """Around the per-request acceptance metrics: tokens of plain steps are not in the accept length.

    Accept length = (accepted drafts + verify steps) / verify steps, bonus token included.
    """
    original(manager, meta_info, recv_obj, i)
    verifies = meta_info.get("spec_verify_ct")
    if verifies:
        meta_info["spec_accept_length"] = (meta_info["spec_num_correct_drafts"] + verifies) / verifies
