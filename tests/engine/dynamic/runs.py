"""One served load and everything a test wants to know of it afterwards; all of it can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.dynamic import loads
from engine.dynamic.loads import Ask
from engine.harness import Engine, in_process

Pair = tuple[Path, Path]

STRICT = {
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1",
    "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE": "1",
}


@dataclass
class Run:
    """What a load got from an engine. Token ids by request id; `finish`: how each ended (length, abort)."""

    outputs: dict[str, list[int]]
    finish: dict[str, str]
    retractions: int
    report: dict[str, Any]
    flushed: bool
    tokens_left_in_use: int
    slots_left_in_use: int
    modes: list[tuple[int, int]] = field(
        default_factory=list
    )  # (batch, 1 = speculative) of every decode step


def options(
    threshold: int | None = None, sync: str = "lazy", page: int = 1, topk: int = 1, **more: Any
) -> dict:
    """Server arguments of a checked dynamic server (of the plain one without a threshold)."""
    given: dict[str, Any] = {"page_size": page} | more
    if threshold is not None:
        given |= {
            "speculative_disable_batch_threshold": threshold,
            "speculative_draft_sync": sync,
            "speculative_lazy_window": more.get("speculative_lazy_window", 16),
            "specswitch_check": True,
        }
    if topk > 1:
        given |= {"speculative_eagle_topk": topk, "speculative_num_draft_tokens": 8}
    return given


def retraction(every: int) -> dict[str, str]:
    """Environment that makes the engine retract a request every so many forwards."""
    return {"SGLANG_TEST_RETRACT": "1", "SGLANG_TEST_RETRACT_INTERVAL": str(every)}


def finish(engine: Engine) -> Run:
    """Wait until the engine is idle, flush, and take stock."""
    from specswitch.engine import liveness
    from specswitch.engine.policy import Mode

    results = engine.run()
    scheduler = engine.scheduler
    flushed = engine.flush()
    allocator, slots = scheduler.token_to_kv_pool_allocator, scheduler.req_to_token_pool
    return Run(
        outputs={rid: out.output_ids for rid, out in results.items()},
        finish={rid: (out.finish_reason or {}).get("type", "none") for rid, out in results.items()},
        retractions=sum(out.meta["retraction_count"] for out in results.values()),
        report=liveness.report(scheduler),
        flushed=flushed,
        tokens_left_in_use=scheduler.max_total_num_tokens - allocator.available_size(),
        slots_left_in_use=slots.size - len(slots.free_slots),
        modes=[(batch, int(info.mode is Mode.SPECULATIVE)) for batch, info in engine.decode_steps],
    )


def _engine(path: str, pair: Pair, opts: dict[str, Any]) -> Engine:
    return Engine(path, pair[0], None if path == "none" else pair[1], **opts)


def serve_crossing(path: str, pair: Pair, longs: Sequence[Ask], shorts: Sequence[Ask], opts: dict) -> Run:
    engine = _engine(path, pair, opts)
    loads.run_crossing(engine, longs, shorts)
    return finish(engine)


def serve_random(path: str, pair: Pair, asks: Sequence[Ask], opts: dict) -> Run:
    engine = _engine(path, pair, opts)
    loads.run_closed_loop(engine, asks, loads.alternating())
    return finish(engine)


def plain_reference(pair: Pair, asks: Sequence[Ask]) -> dict[str, list[int]]:
    """Outputs of a server without any speculative argument, nothing aborted, nothing retracted."""
    engine = _engine("none", pair, {})
    for ask in asks:
        loads.submit(engine, ask)
    return {rid: out.output_ids for rid, out in engine.run(max_steps=20000).items()}


def in_child(function: Any, *args: Any, env: dict[str, str] | None = None, timeout: float = 600) -> Any:
    """Run a scenario with the engine's memory checks on."""
    return in_process(function, *args, env=STRICT | (env or {}), timeout=timeout)
