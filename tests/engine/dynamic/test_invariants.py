"""Every named invariant holds on a real batch and fires, under its own name, when that one thing is spoilt."""

from __future__ import annotations

import contextlib
import inspect
import random
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.dynamic import loads, runs
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine

WINDOW = 8
Spoil = Callable[[Any, Any], None]  # (scheduler, batch)


@contextlib.contextmanager
def unchanged_afterwards(scheduler: Any, batch: Any) -> Iterator[None]:
    """Put back whatever the spoils below touch."""
    table = scheduler.req_to_token_pool.req_to_token
    objects = [
        *batch.reqs,
        batch,
        scheduler.running_batch,
        scheduler.cur_batch,
        scheduler.token_to_kv_pool_allocator,
        scheduler.running_batch.spec_info,
    ]
    saved, rows = [(o, dict(vars(o))) for o in objects], table.clone()
    try:
        yield
    finally:
        table.copy_(rows)
        for obj, attributes in saved:
            vars(obj).clear()
            vars(obj).update(attributes)


def put(path: str, value: Callable[[Any], Any]) -> Spoil:
    """Set an attribute, given as `req.x`, `batch.x`, `spec.x` or `pool.x`, to a function of its value."""
    owner, attribute = path.split(".")

    def spoil(scheduler: Any, batch: Any) -> None:
        obj = {
            "req": batch.reqs[1],
            "batch": scheduler.cur_batch,
            "spec": scheduler.running_batch.spec_info,
            "pool": scheduler.token_to_kv_pool_allocator,
        }[owner]
        setattr(obj, attribute, value(getattr(obj, attribute, None)))

    return spoil


def slot(value: Callable[[Any, int, int, int], Any]) -> Spoil:
    """Overwrite the KV slot of the newest committed position of request 1: value(table, row, row of 0, position)."""

    def spoil(scheduler: Any, batch: Any) -> None:
        table = scheduler.req_to_token_pool.req_to_token
        first, req = batch.reqs[:2]
        position = req.kv_committed_len - 1
        table[req.req_pool_idx, position] = value(table, req.req_pool_idx, first.req_pool_idx, position)

    return spoil


def same_slot_for_two(scheduler: Any, batch: Any) -> None:
    batch.reqs[1].req_pool_idx = batch.reqs[0].req_pool_idx


def free_a_page_in_use(scheduler: Any, batch: Any) -> None:
    allocator, req = scheduler.token_to_kv_pool_allocator, batch.reqs[1]
    used = scheduler.req_to_token_pool.req_to_token[req.req_pool_idx, req.kv_committed_len - 1]
    page = (used // allocator.page_size).reshape(1).to(allocator.free_pages.dtype)
    allocator.free_pages = torch.cat([allocator.free_pages, page])


def replace_spec_info(scheduler: Any, batch: Any) -> None:
    scheduler.running_batch.spec_info = SimpleNamespace()


ON_BOTH: dict[str, list[Spoil]] = {
    "distinct_slots": [same_slot_for_two],
    "committed_is_tokens_minus_bonus": [
        put("req.kv_committed_len", lambda n: n + 1),
        put("req.kv_committed_len", lambda n: n - 1),
        put("req.output_ids", lambda ids: ids[:-1]),
        put("req.output_ids", lambda ids: [*ids, 1]),
    ],
    "allocated_covers_committed": [put("req.kv_allocated_len", lambda _: 3)],
    "catching_up_begins_at_the_prompts_end_or_later": [
        put("req.specswitch_draft_len", lambda _: 2),
        put("req.specswitch_draft_len", lambda _: 500),
    ],
    "committed_slots_written": [slot(lambda *_: 0)],
    "slots_of_a_request_differ": [slot(lambda table, own, first, i: table[own, i - 1])],
    "slots_belong_to_one_request": [slot(lambda table, own, first, i: table[first, 25])],
    "committed_slots_are_not_free": [free_a_page_in_use],
    "pool_adds_up": [
        put("pool.free_pages", lambda pages: pages[1:]),
        put("req.kv_allocated_len", lambda n: n + 64),
        put("req.cache_protected_len", lambda n: 0),
    ],
}
PENDING = {"pending_tokens_fit_the_window": [put("req.specswitch_draft_len", lambda n: n - WINDOW)]}
ON_V1: dict[str, list[Spoil]] = {
    "batch_lengths_are_the_requests": [
        put("batch.seq_lens", lambda lens: lens + 1),
        put("batch.seq_lens_cpu", lambda lens: lens - 1),
    ],
    "spec_info_is_draft_input": [replace_spec_info],
    "spec_info_has_a_row_per_unfinished_request": [
        put("spec.topk_p", lambda _: None),
        put("spec.topk_p", lambda x: x[:-1]),
        put("spec.topk_p", lambda x: x.double()),
        put("spec.topk_index", lambda x: x.int()),
        put("spec.hidden_states", lambda x: x.repeat(1, 3)),
        put("spec.bonus_tokens", lambda x: torch.cat([x, x])),
    ],
    "bonus_token_is_the_newest": [put("spec.bonus_tokens", lambda x: x.flip(0))],
}
ON_V2: dict[str, list[Spoil]] = {
    "step_launched_at_the_committed_length": [
        put("batch.seq_lens", lambda lens: lens + 10),
        put("batch.seq_lens", lambda lens: lens - 2),
        put("batch.seq_lens_cpu", lambda lens: lens + 1),
    ],
}
SPOILS = {"v1": ON_BOTH | PENDING | ON_V1, "v2": ON_BOTH | PENDING | ON_V2}


def fired(path: str, pair: Pair, page: int) -> dict[str, list[str]]:
    """What the checker says to each spoil of a batch in the middle of plain steps; "" for nothing."""
    from specswitch.engine.invariants import InvariantError, check_batch

    engine = Engine(path, *pair, **runs.options(0, page=page, speculative_lazy_window=WINDOW))
    for i in range(3):
        prompt = loads.prompt(random.Random(i), 24 + 5 * i)
        engine.submit(prompt, {"max_new_tokens": 200, "ignore_eos": True})
    engine.step(30)
    scheduler = engine.scheduler
    # The batch whose result was processed last: under overlap the scheduler keeps a copy of it.
    batch = scheduler.running_batch.copy() if path == "v2" else scheduler.running_batch

    def says(spoil: Spoil) -> str:
        with unchanged_afterwards(scheduler, batch):
            spoil(scheduler, batch)
            try:
                check_batch(scheduler, batch)
            except InvariantError as error:
                return str(error).partition(":")[0]
        return ""

    assert len(batch.reqs) == 3
    assert says(lambda scheduler, batch: None) == ""
    found = {name: [says(spoil) for spoil in spoils] for name, spoils in SPOILS[path].items()}
    assert says(lambda scheduler, batch: None) == ""
    engine.run()
    return found


@pytest.mark.parametrize("page", [1, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", ["v1", "v2"])
def test_each_invariant_fires_under_its_name(pair: Pair, path: str, page: int) -> None:
    assert runs.in_child(fired, path, pair, page) == {
        name: [name] * len(spoils) for name, spoils in SPOILS[path].items()
    }


def plain_forward(**changes: Any) -> SimpleNamespace:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    good = {
        "spec_info": None,
        "forward_mode": ForwardMode.DECODE,
        "req_pool_indices": [1, 2],
        "input_ids": [5, 6],
        "out_cache_loc": [7, 8],
    }
    return SimpleNamespace(**(good | changes))


def forwards_and_pending() -> list[str]:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    from specswitch.engine.invariants import InvariantError, check_nothing_pending, check_plain_forward

    check_plain_forward(plain_forward())
    check_nothing_pending([SimpleNamespace(rid="a"), SimpleNamespace(rid="b", specswitch_draft_len=None)])
    names = []
    for check, argument in (
        (check_plain_forward, plain_forward(spec_info=object())),
        (check_plain_forward, plain_forward(forward_mode=ForwardMode.TARGET_VERIFY)),
        (check_plain_forward, plain_forward(input_ids=[5, 6, 7, 8])),
        (check_plain_forward, plain_forward(out_cache_loc=[7])),
        (check_nothing_pending, [SimpleNamespace(rid="a", specswitch_draft_len=9)]),
    ):
        with pytest.raises(InvariantError) as error:
            check(argument)
        names.append(str(error.value).partition(":")[0])
    return names


def test_forwards_and_pending_tokens_are_checked_before_a_step() -> None:
    assert runs.in_child(forwards_and_pending) == [
        "plain_step_has_no_spec_info",
        *["plain_step_is_one_token_decode"] * 3,
        "speculative_step_has_nothing_pending",
    ]


def names_in_source() -> list[str]:
    from specswitch.engine import invariants

    found = re.findall(r'"([a-z]+(?:_[a-z0-9]+)+)",', inspect.getsource(invariants))
    return sorted(set(found) - {"topk_p", "topk_index", "hidden_states", "bonus_tokens"})


def test_no_invariant_is_left_out() -> None:
    named = {name for spoils in SPOILS.values() for name in spoils}
    named |= {"plain_step_has_no_spec_info", "plain_step_is_one_token_decode"}
    named |= {"speculative_step_has_nothing_pending"}
    assert runs.in_child(names_in_source) == sorted(named)
