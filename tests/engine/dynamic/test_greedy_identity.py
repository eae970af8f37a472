"""Greedy outputs of a dynamic server equal the plain server's, whatever was switched, retracted or aborted.

Every run also has the engine's strict memory check in each step, our invariants in each step, and empty pools at
the end. A dead or idle server would pass a comparison of nothing, so the answers are counted first.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from engine.dynamic import loads, runs
from engine.dynamic.loads import Ask
from engine.dynamic.runs import Pair, Run

pytestmark = pytest.mark.engine

THRESHOLD = 4
SHAPES = [("v1", 1, 1), ("v1", 1, 16), ("v1", 4, 1), ("v2", 1, 1), ("v2", 1, 16)]  # path, topk, page
SYNCS = ["lazy", "eager", "stale"]
RULES: dict[str, dict[str, Any]] = {
    "dwell1": {},
    "dwell8": {"speculative_switch_dwell": 8},
    "hysteresis": {"speculative_enable_batch_threshold": 2},
}
EVERYTHING = list(itertools.product(SHAPES, SYNCS, RULES))
# Every sync rule with every switching rule, and every shape with at least one of each: nine runs, not 45.
CHOSEN = [
    (SHAPES[(3 * i + j) % len(SHAPES)], sync, rule)
    for i, sync in enumerate(SYNCS)
    for j, rule in enumerate(RULES)
]
EACH_SHAPE = [
    (shape, SYNCS[i % len(SYNCS)], list(RULES)[(i // 2) % len(RULES)]) for i, shape in enumerate(SHAPES)
]


def name(combination: tuple) -> str:
    (path, topk, page), sync, rule = combination
    return f"{path}-topk{topk}-page{page}-{sync}-{rule}"


def options(shape: tuple[str, int, int], sync: str, rule: str) -> dict[str, Any]:
    return runs.options(THRESHOLD, sync, page=shape[2], topk=shape[1], **RULES[rule])


def must_be_clean(run: Run) -> None:
    assert run.flushed
    assert (run.tokens_left_in_use, run.slots_left_in_use) == (0, 0)


def must_have_switched(run: Run, path: str, least: int = 2) -> None:
    assert run.report["path"] == path
    assert run.report["dynamic"]
    assert run.report["switches"] >= least
    assert min(run.report["plain_steps"], run.report["speculative_steps"]) >= 25
    assert run.report["accept_length"] > 1.3, "drafts are hardly accepted: the test would not see much"


def check_crossing(pair: Pair, plain: dict[str, list[int]], combination: tuple) -> None:
    shape, _sync, rule = combination
    longs, shorts = loads.crossing()
    run = runs.in_child(runs.serve_crossing, shape[0], pair, longs, shorts, options(*combination))
    assert {rid: len(ids) for rid, ids in run.outputs.items()} == {a.rid: a.tokens for a in [*longs, *shorts]}
    assert run.outputs == plain
    must_be_clean(run)
    must_have_switched(run, shape[0])
    batches = [batch for batch, _ in run.modes]
    assert (batches[0], max(batches)) == (3, 9)
    assert batches[-1] <= 3
    if rule == "dwell1":
        assert all(speculative == (batch <= THRESHOLD) for batch, speculative in run.modes)


def check_random(pair: Pair, plain: dict[str, list[int]], asks: list[Ask], combination: tuple) -> None:
    shape, _sync, rule = combination
    run = runs.in_child(
        runs.serve_random, shape[0], pair, asks, options(*combination), env=runs.retraction(every=13)
    )
    kept = [a for a in asks if a.abort_after is None]
    cut = [a for a in asks if a.abort_after is not None]
    assert {a.rid: len(run.outputs[a.rid]) for a in kept} == {a.rid: a.tokens for a in kept}
    assert [a.rid for a in kept if run.outputs[a.rid] != plain[a.rid]] == []
    assert len(cut) == round(len(asks) * 0.05)
    for a in cut:
        got = run.outputs[a.rid]
        assert run.finish[a.rid] == "abort"
        assert a.abort_after <= len(got) < a.tokens
        assert got == plain[a.rid][: len(got)]
    assert run.retractions >= len(asks) // 10
    must_be_clean(run)
    must_have_switched(run, shape[0], least=2 if rule == "hysteresis" else 4)
    assert max(batch for batch, _ in run.modes) == 8


@pytest.mark.parametrize("combination", CHOSEN, ids=name)
def test_crossing_load(pair: Pair, plain_crossing: dict[str, list[int]], combination: tuple) -> None:
    check_crossing(pair, plain_crossing, combination)


@pytest.mark.parametrize("combination", EACH_SHAPE, ids=name)
def test_forty_random_requests_with_retraction_and_aborts(
    pair: Pair, plain_random: dict[str, list[int]], combination: tuple
) -> None:
    check_random(pair, plain_random, loads.random_requests(40), combination)


@pytest.mark.slow
@pytest.mark.parametrize("combination", [c for c in EVERYTHING if c not in CHOSEN], ids=name)
def test_crossing_load_every_combination(
    pair: Pair, plain_crossing: dict[str, list[int]], combination: tuple
) -> None:
    check_crossing(pair, plain_crossing, combination)


@pytest.mark.slow
@pytest.mark.parametrize("combination", EVERYTHING, ids=name)
def test_two_hundred_random_requests_every_combination(
    pair: Pair, plain_two_hundred: dict[str, list[int]], combination: tuple
) -> None:
    check_random(pair, plain_two_hundred, loads.random_requests(200), combination)


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_engine_refuses_trees_on_pages_at_start(pair: Pair, path: str) -> None:
    """The one corner of the matrix that cannot be: top-k > 1 with pages needs FlashInfer or FA3."""
    longs, shorts = loads.crossing()
    with pytest.raises(RuntimeError, match="topk > 1 with page_size > 1"):
        runs.in_child(runs.serve_crossing, path, pair, longs, shorts, runs.options(4, page=16, topk=4))
