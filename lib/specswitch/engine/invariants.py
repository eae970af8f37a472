"""What must hold of a decode batch between two steps; `--specswitch-check` verifies it after each one.

The engine's own strict memory check sees leaks but not which bookkeeping went wrong, and it skips topk > 1.
"""

from __future__ import annotations

from typing import Any

from sglang.srt.speculative.eagle_info import EagleDraftInput

from specswitch.engine.draft_sync import draft_len


class InvariantError(AssertionError):
    """A named invariant is broken; the message says which, for which request, with the values."""


def _require(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise InvariantError(f"{name}: {detail}")


def check_batch(scheduler: Any, batch: Any) -> None:
    """Verify the live requests of a batch whose result has just been processed.

    Raises:
        InvariantError: the first broken invariant, by name.
    """
    live = [req for req in batch.reqs if not req.finished() and not req.is_retracted]
    _require(
        len({r.req_pool_idx for r in live}) == len(live),
        "distinct_slots",
        f"{[r.req_pool_idx for r in live]}",
    )
    table = scheduler.req_to_token_pool.req_to_token
    seen: set[int] = set()
    page = scheduler.server_args.page_size
    for req in live:
        tokens = len(req.origin_input_ids) + len(req.output_ids)
        # v2 pre-claims a slot for the step already launched; without one in flight it is tokens - 1.
        _require(
            req.kv_committed_len in (tokens - 1, tokens),
            "committed_is_tokens_minus_bonus",
            f"{req.rid}: committed {req.kv_committed_len}, tokens {tokens}",
        )
        _require(
            req.kv_allocated_len >= req.kv_committed_len,
            "allocated_covers_committed",
            f"{req.rid}: allocated {req.kv_allocated_len}, committed {req.kv_committed_len}",
        )
        start = draft_len(req)
        _require(
            start is None or len(req.origin_input_ids) <= start <= req.kv_committed_len,
            "draft_len_within_output",
            f"{req.rid}: draft_len {start}, prompt {len(req.origin_input_ids)}, "
            f"committed {req.kv_committed_len}",
        )
        own = table[req.req_pool_idx, len(req.origin_input_ids) : req.kv_committed_len].tolist()
        _require(0 not in own, "committed_slots_written", f"{req.rid}: slot 0 among {own}")
        _require(len(set(own)) == len(own), "slots_of_a_request_differ", f"{req.rid}: {own}")
        if page == 1:
            _require(
                not seen & set(own), "slots_belong_to_one_request", f"{req.rid}: {sorted(seen & set(own))}"
            )
        seen |= set(own)
    _check_spec_info(scheduler)


def _check_spec_info(scheduler: Any) -> None:
    running = scheduler.running_batch
    if scheduler.spec_algorithm.is_none() or running is None or running.is_empty():
        return
    info = running.spec_info
    if running.is_spec_v2 or info is None:
        return
    _require(isinstance(info, EagleDraftInput), "spec_info_is_draft_input", type(info).__name__)
    rows = sum(not r.finished() for r in running.reqs)
    for field in ("topk_p", "topk_index", "hidden_states", "bonus_tokens"):
        value = getattr(info, field)
        _require(
            value is not None and len(value) == rows,
            "spec_info_has_a_row_per_unfinished_request",
            f"{field}: {None if value is None else tuple(value.shape)} for {rows} requests",
        )
