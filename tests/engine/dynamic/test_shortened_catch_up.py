"""Catching up a large batch: the draft extend is kept small, and what comes of it is the same.

K and V of all but each request's last pending position are written before, in passes of bounded size.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from engine.dynamic import draft_rows, loads, runs
from engine.dynamic.draft_rows import Rows, differing
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine

BATCH, PLAIN_STEPS, SMALL = 7, 12, 20
ALL_AT_ONCE = 10**6
RESUMING = 3  # iterations that see the catching up and the first verify of each request


@dataclass
class Resumed:
    """What speculation resumed from. `state`: the draft state's tensors as arrays, by name. Tokens: of each pass."""

    state: dict[str, np.ndarray]
    rows: Rows
    outputs: dict[str, list[int]]
    extended: list[int]
    written: list[int]
    synced: int


def resumed(path: str, pair: Pair, most_tokens: int) -> Resumed:
    """BATCH requests decode off for PLAIN_STEPS; then speculation is switched on."""
    from specswitch.engine import control, draft_kv_rows
    from specswitch.engine.draft_sync import DraftSync

    draft_kv_rows.MOST_TOKENS = most_tokens
    engine = Engine(path, *pair, **runs.options(0))
    watch = draft_rows.Watch(engine)
    rng = random.Random(4)
    for i in range(BATCH):
        sampling = {"max_new_tokens": 60, "ignore_eos": True}
        engine.submit(loads.prompt(rng, 20 + i), sampling, rid=f"r{i}")
    while len(engine.running()) < BATCH:
        engine.step()
    engine.step(PLAIN_STEPS)

    states: list[Any] = []
    catch_up = DraftSync.catch_up

    def seen(*args: Any) -> Any:
        states.append(catch_up(*args))
        return states[-1]

    DraftSync.catch_up = seen  # type: ignore[method-assign]
    written = _passes(engine.worker.kv_rows)
    totals = engine.scheduler.specswitch_counters.totals
    before = totals.synced_tokens
    control.change_rule(engine.worker, {"threshold": None})
    engine.step(RESUMING)
    rows = dict(watch.last)
    [state] = states
    names = ("topk_p", "topk_index", "hidden_states")
    return Resumed(
        state={name: getattr(state, name).numpy().copy() for name in names},
        rows=rows,
        outputs={rid: out.output_ids for rid, out in engine.run().items()},
        extended=[s.tokens for s in states],
        written=list(written),
        synced=totals.synced_tokens - before,
    )


def _passes(kv_rows: Any) -> list[int]:
    """From now on: the positions of each pass that writes K and V alone."""
    sizes: list[int] = []
    forward = kv_rows._forward

    def counted(batch: Any, **fields: Any) -> None:
        sizes.append(len(fields["positions"]))
        forward(batch, **fields)

    kv_rows._forward = counted
    return sizes


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_a_large_batch_resumes_from_the_same_rows_and_state_in_small_passes(pair: Pair, path: str) -> None:
    once = runs.in_child(resumed, path, pair, ALL_AT_ONCE)
    assert once.written == []
    assert once.extended[0] > BATCH * (PLAIN_STEPS - 3)
    small = runs.in_child(resumed, path, pair, SMALL)
    assert small.extended == [BATCH], "one position of each request is left"
    assert sum(small.written) == once.extended[0] - BATCH
    assert len(small.written) > 1
    assert max(small.written) <= SMALL
    assert small.synced == once.synced == once.extended[0]

    compared, wrong = differing(small.rows, once.rows)
    assert compared > BATCH * 30
    assert wrong == 0
    assert (small.state["topk_index"] == once.state["topk_index"]).all()
    for name in ("topk_p", "hidden_states"):
        assert np.abs(small.state[name] - once.state[name]).max() < draft_rows.TOLERANCE
    assert small.outputs == once.outputs
    assert len(small.outputs) == BATCH
