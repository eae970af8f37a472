"""What runs in 100 plain steps, counted where the models run: off pays for one token per request, and the sync."""

from __future__ import annotations

import gc
import math
import random
from collections import Counter
from typing import Any

import pytest

from engine.dynamic import draft_rows, loads, runs
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine

BATCH, STEPS, WINDOW = 8, 100, 16
JOINING = (31, 37)  # prompt lengths
Forward = tuple[str, str, int, int, bool]  # model, forward mode, requests, tokens, spec_info is None


def count(engine: Engine, seen: list[Forward]) -> None:
    """From now on write every forward of both models into `seen`."""
    for name, runner in (
        ("target", engine.worker.target_worker.model_runner),
        ("draft", draft_rows.draft_runner(engine)),
    ):
        forward = runner.forward

        def counted(batch: Any, *args: Any, _name: str = name, _forward: Any = forward, **kwargs: Any) -> Any:
            mode = batch.forward_mode.name
            seen.append((_name, mode, batch.batch_size, len(batch.input_ids), batch.spec_info is None))
            return _forward(batch, *args, **kwargs)

        runner.forward = counted


def decoding(path: str, pair: Pair, opts: dict[str, Any], seen: list[Forward]) -> Engine:
    """An engine in which BATCH requests decode; from now on its forwards are written into `seen`."""
    engine = Engine(path, *pair, **opts)
    count(engine, seen)
    rng = random.Random(1)
    for i in range(BATCH):
        engine.submit(loads.prompt(rng, 20 + i), {"max_new_tokens": 300, "ignore_eos": True})
    while len(engine.running()) < BATCH:
        engine.step()
    engine.step(2)  # the requests' last prefill is behind us on the overlapping path, too
    seen.clear()
    return engine


def hundred_plain_steps(
    path: str, pair: Pair, opts: dict[str, Any], whole: bool = False, most_tokens: int | None = None
) -> tuple[Counter, int, int, int]:
    """Forwards, plain steps, speculative steps and windows emptied while eight requests decode off.

    whole: the draft model is one whose K and V cannot be had alone. most_tokens: of one pass over windows.
    """
    from specswitch.engine import draft_kv_rows, workers

    if whole:
        workers.why_not = lambda *_: "it is a test"
    if most_tokens is not None:
        draft_kv_rows.MOST_TOKENS = most_tokens
    seen: list[Forward] = []
    engine = decoding(path, pair, opts, seen)
    totals, rows = engine.scheduler.specswitch_counters.totals, engine.worker.kv_rows
    plain, speculative = totals.plain_steps, totals.speculative_steps
    emptied = rows.forwards if rows else 0
    engine.step(STEPS)
    emptied = rows.forwards - emptied if rows else 0
    return Counter(seen), totals.plain_steps - plain, totals.speculative_steps - speculative, emptied


WINDOWS = range(1, math.ceil(STEPS / WINDOW) + 2)


@pytest.mark.parametrize(("sync", "extends"), [("lazy", 0), ("eager", STEPS), ("stale", 0)])
@pytest.mark.parametrize("path", ["v1", "v2"])
def test_forwards_of_a_hundred_plain_steps(pair: Pair, path: str, sync: str, extends: int) -> None:
    """Field case A7: off runs neither drafts nor a verify."""
    forwards, plain, speculative, emptied = runs.in_child(
        hundred_plain_steps, path, pair, runs.options(4, sync)
    )
    assert (plain, speculative) == (STEPS, 0)
    target = {key: n for key, n in forwards.items() if key[0] == "target"}
    assert target == {("target", "DECODE", BATCH, BATCH, True): STEPS}
    draft = {key: n for key, n in forwards.items() if key[0] == "draft"}
    assert {mode for _, mode, *_ in draft} <= {"EXTEND"}, "no draft decode in a plain step"
    assert sum(draft.values()) == extends
    assert emptied in (WINDOWS if sync == "lazy" else [0]), "one pass for the whole batch's windows"


def test_a_large_batchs_windows_are_emptied_in_parts(pair: Pair) -> None:
    options = runs.options(4, "lazy")
    whole, parts = (
        runs.in_child(hundred_plain_steps, "v2", pair, options, False, most_tokens)[3]
        for most_tokens in (None, 3 * WINDOW)
    )
    assert parts == whole * math.ceil(BATCH / 3)


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_full_windows_of_a_draft_that_needs_its_whole_forward(pair: Pair, path: str) -> None:
    forwards, plain, _, _ = runs.in_child(hundred_plain_steps, path, pair, runs.options(4, "lazy"), True)
    assert plain == STEPS
    draft = {key: n for key, n in forwards.items() if key[0] == "draft"}
    assert sum(draft.values()) in WINDOWS
    assert {key[:4] for key in draft} == {("draft", "EXTEND", BATCH, BATCH * WINDOW)}


def joined(path: str, pair: Pair, opts: dict[str, Any]) -> tuple[Counter, int | None]:
    """Forwards in the iterations in which two requests join eight others; prefills without the draft, all in all."""
    seen: list[Forward] = []
    engine = decoding(path, pair, opts, seen)
    rng = random.Random(3)
    for tokens in JOINING:
        engine.submit(loads.prompt(rng, tokens), {"max_new_tokens": 300, "ignore_eos": True})
    while len(engine.running()) < BATCH + 2:
        engine.step()
    rows = engine.worker.kv_rows
    return Counter(seen), rows and rows.forwards


@pytest.mark.parametrize("path", ["v1", "v2"])
@pytest.mark.parametrize(("threshold", "whole"), [(0, False), (64, True)])
def test_a_prefill_spares_the_draft_while_off_and_only_then(
    pair: Pair, path: str, threshold: int, whole: bool
) -> None:
    options = runs.options(threshold, "lazy", speculative_lazy_window=64)
    forwards, _ = runs.in_child(joined, path, pair, options)
    sizes = {*JOINING, sum(JOINING)}
    prompts = {name for name, mode, _, tokens, _ in forwards if mode == "EXTEND" and tokens in sizes}
    assert prompts == ({"target", "draft"} if whole else {"target"})


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_prompts_prefilled_off_are_written_once_each(pair: Pair, path: str) -> None:
    _, written = runs.in_child(joined, path, pair, runs.options(0, "lazy", speculative_lazy_window=64))
    assert written is not None
    assert 1 <= written <= BATCH + 2, "one pass for each prefill batch"


def resumed(path: str, pair: Pair, opts: dict[str, Any]) -> list[list[Forward]]:
    """Forwards of the three iterations around the return to speculation."""
    from specswitch.engine import control

    engine = Engine(path, *pair, **opts)
    seen: list[Forward] = []
    count(engine, seen)
    for i in range(3):
        engine.submit(loads.prompt(random.Random(i), 20), {"max_new_tokens": 200, "ignore_eos": True})
    engine.step(20)
    control.change_rule(engine.worker, {"threshold": None})
    found = []
    for _ in range(2):
        seen.clear()
        engine.step()
        found.append(list(seen))
    return found


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_resuming_costs_one_draft_extend_over_everything_pending(pair: Pair, path: str) -> None:
    first, second = runs.in_child(resumed, path, pair, runs.options(0, "lazy", speculative_lazy_window=64))
    catch_up, verify = first[0], first[3]
    assert catch_up[:3] == ("draft", "EXTEND", 3)
    assert 3 * 15 <= catch_up[3] <= 3 * 20
    assert [(f[0], f[1]) for f in first[1:3]] == [("draft", "DECODE")] * 2
    assert verify[:4] == ("target", "TARGET_VERIFY", 3, 12)
    assert [(f[0], f[1]) for f in second[:2]] == [("draft", "DECODE")] * 2, "the next one only speculates"


def held_bytes(path: str, pair: Pair, opts: dict[str, Any]) -> list[int]:
    """Bytes of all tensors alive after each of four rounds of off tokens, the cache flushed in between."""
    import torch

    engine = Engine(path, *pair, **opts)
    found = []
    for round_ in range(4):
        rng = random.Random(round_)
        prompts = [loads.prompt(rng, 20) for _ in range(BATCH)]
        engine.generate(prompts, {"max_new_tokens": 150, "ignore_eos": True})
        assert engine.flush()
        engine.requests.clear()  # the test's own hold on finished requests
        engine.outbox.clear()
        gc.collect()
        storages = {
            t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
            for t in gc.get_objects()
            if isinstance(t, torch.Tensor)
        }
        found.append(sum(storages.values()))
    return found


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_memory_is_flat_over_rounds_of_plain_steps(pair: Pair, path: str) -> None:
    """Field case A7: hidden states of plain steps are not kept for ever."""
    _, second, _, fourth = runs.in_child(held_bytes, path, pair, runs.options(0, "lazy"))
    assert abs(fourth - second) < 2**12, (second, fourth)
