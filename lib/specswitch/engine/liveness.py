"""What a server says about itself: the dictionary under `specswitch` in each internal state of /server_info."""

from __future__ import annotations

import inspect
import os
from typing import Any

import torch
from sglang.srt.distributed import get_tp_group

from specswitch import __version__
from specswitch.engine import switch_args
from specswitch.engine.workers import DynamicWorkerMixin, path_of


def report(scheduler: Any) -> dict[str, Any]:
    """This process's own report; numbers that do not exist are None."""
    worker = scheduler.model_worker
    counters = scheduler.specswitch_counters
    totals = counters.totals
    dynamic = isinstance(worker, DynamicWorkerMixin)
    stock_class = type(worker).__mro__[2] if dynamic else type(worker)
    rule = worker.switch.rule if dynamic else switch_args.of(scheduler.server_args).rule
    return {
        "version": __version__,
        "nonce": os.environ.get("SPECSWITCH_NONCE"),
        "pid": os.getpid(),
        "tp_rank": scheduler.tp_rank,
        "path": path_of(worker),
        "worker_class": type(worker).__name__,
        "worker_file": inspect.getfile(type(worker)),
        "stock_class": stock_class.__name__,
        "stock_file": inspect.getfile(stock_class),
        "overlap": scheduler.enable_overlap,
        "topk": scheduler.server_args.speculative_eagle_topk,
        "num_draft_tokens": scheduler.server_args.speculative_num_draft_tokens,
        "spec_v2_env": os.environ.get("SGLANG_ENABLE_SPEC_V2"),
        "dynamic": dynamic,
        "threshold": rule.threshold,
        "enable_threshold": rule.enable_threshold,
        "dwell": rule.dwell,
        "ranges": None if rule.ranges is None else [list(r) for r in rule.ranges],
        "sync": worker.sync.rule if dynamic else None,
        "lazy_window": worker.sync.window if dynamic else None,
        "buffer_bytes": worker.sync.buffer_bytes if dynamic else None,
        "kv_rows_only": worker.kv_rows is not None if dynamic else None,
        "kv_rows_forwards": worker.kv_rows.forwards if dynamic and worker.kv_rows else None,
        "draft_extend_forwards": worker.sync.extend_forwards if dynamic else None,
        "mode": worker.switch.mode.value if dynamic else None,
        "switches": worker.switch.switches if dynamic else None,
        "running_batch": counters.running_batch,
        "plain_steps": totals.plain_steps,
        "speculative_steps": totals.speculative_steps,
        "plain_tokens": totals.plain_tokens,
        "speculative_tokens": totals.speculative_tokens,
        "proposed": totals.proposed,
        "accepted": totals.accepted,
        "synced_tokens": totals.synced_tokens,
        "accept_length": counters.accept_length(),
        "last_refusal": getattr(scheduler, "specswitch_refusal", None),
    }


def report_of_all_ranks(scheduler: Any) -> dict[str, Any]:
    """Rank 0's report with every rank's under `ranks`; each rank answers the same request, so they can gather."""
    own = report(scheduler)
    if scheduler.tp_size == 1:
        return own
    group = get_tp_group().cpu_group
    gathered: list[Any] = [None] * scheduler.tp_size
    torch.distributed.all_gather_object(gathered, own, group=group)
    return {**own, "ranks": gathered}
