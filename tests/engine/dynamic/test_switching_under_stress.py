"""Switching in every step, aborts at the very switch, retraction while modes change; field cases A8, A9, A10."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.dynamic import loads, runs
from engine.dynamic.loads import Ask
from engine.dynamic.runs import Pair, Run
from engine.dynamic.test_greedy_identity import must_be_clean
from engine.harness import Engine

pytestmark = pytest.mark.engine


def switch_every_step(
    path: str, pair: Pair, asks: list[Ask], syncs: tuple[str, ...], opts: dict[str, Any]
) -> Run:
    """Closed loop; before each iteration the rule turns over, and the sync rule goes round."""
    from specswitch.engine import control

    engine = Engine(path, *pair, **opts)
    step = engine.step

    def stepped(count: int = 1) -> None:
        for _ in range(count):
            control.change_rule(
                engine.worker,
                {"threshold": None if engine.steps % 2 else 0, "sync": syncs[engine.steps // 8 % len(syncs)]},
            )
            step()

    engine.step = stepped  # type: ignore[method-assign]
    loads.run_closed_loop(engine, asks, lambda iteration: 6)
    return runs.finish(engine)


LAZY, ROUND = ("lazy",), ("lazy", "eager", "stale")


@pytest.mark.parametrize(
    ("path", "page", "syncs"),
    [
        ("v1", 1, LAZY),
        ("v2", 16, LAZY),
        ("v1", 16, ROUND),
        ("v2", 1, ROUND),
        pytest.param("v1", 16, LAZY, marks=pytest.mark.slow),
        pytest.param("v2", 1, LAZY, marks=pytest.mark.slow),
        pytest.param("v1", 1, ROUND, marks=pytest.mark.slow),
        pytest.param("v2", 16, ROUND, marks=pytest.mark.slow),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_switch_in_every_step(
    pair: Pair, plain_random: dict[str, list[int]], path: str, page: int, syncs: tuple[str, ...]
) -> None:
    """Field case A9: nothing of one step's drafts is taken for the next step's."""
    asks = [a for a in loads.random_requests(40) if a.abort_after is None][:28]
    run = runs.in_child(switch_every_step, path, pair, asks, syncs, runs.options(0, syncs[0], page=page))
    assert {a.rid: len(run.outputs[a.rid]) for a in asks} == {a.rid: a.tokens for a in asks}
    assert run.outputs == {a.rid: plain_random[a.rid] for a in asks}
    must_be_clean(run)
    assert run.report["switches"] >= 200
    assert run.report["accept_length"] > 1.3


def crossings_with_aborts(path: str, pair: Pair, opts: dict[str, Any], rounds: int) -> list[dict[str, Any]]:
    """Crossing loads one after the other; in each, one request is aborted in the iteration of a switch."""
    engine = Engine(path, *pair, **opts)
    scheduler = engine.scheduler
    found = []
    for n in range(rounds):
        longs, shorts = loads.crossing(seed=100 + n, long=96, short=16)
        asks = [Ask(f"{n}-{a.rid}-", a.prompt, a.tokens) for a in [*longs, *shorts]]
        for ask in asks[:3]:
            loads.submit(engine, ask)
        for ask in asks[3:]:
            loads.submit(engine, ask, at_step=engine.steps + 15)
        victim, wanted = asks[n % 3 if n % 2 else 3 + n % 6].rid, 1 + n % 2
        start, aborted_at = engine.worker.switch.switches, None
        while not engine._expected <= set(engine._results):
            before = engine.worker.switch.switches
            engine.step()
            switched = engine.worker.switch.switches > before
            if (
                switched
                and aborted_at is None
                and before - start + 1 >= wanted
                and victim in engine.running()
            ):
                engine.abort(victim)
                aborted_at = engine.steps
        results = engine.run()
        free = scheduler.token_to_kv_pool_allocator.available_size() + scheduler.tree_cache.evictable_size()
        found.append(
            {
                "asks": asks,
                "victim": victim,
                "outputs": {a.rid: results[a.rid].output_ids for a in asks},
                "aborted": [a.rid for a in asks if results[a.rid].finish_reason["type"] == "abort"],
                "leaked": scheduler.max_total_num_tokens - free,
                "flushed": engine.flush(),
                "in_use": scheduler.max_total_num_tokens
                - scheduler.token_to_kv_pool_allocator.available_size(),
            }
        )
    assert len(engine.generate([[5, 6, 7]], {"max_new_tokens": 8, "ignore_eos": True})[-1].output_ids) == 8
    return found


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("v1", 16),
        ("v2", 1),
        pytest.param("v1", 1, marks=pytest.mark.slow),
        pytest.param("v2", 16, marks=pytest.mark.slow),
    ],
)
def test_aborts_at_the_switch_leak_nothing(pair: Pair, path: str, page: int) -> None:
    """Field case A8: five crossings, a tenth of the requests aborted just when the mode turns."""
    rounds = runs.in_child(crossings_with_aborts, path, pair, runs.options(4, page=page), 5)
    asks = [a for r in rounds for a in r["asks"]]
    plain = runs.in_child(runs.plain_reference, pair, asks)
    assert len(asks) == 45
    for r in rounds:
        assert (r["leaked"], r["in_use"], r["flushed"]) == (0, 0, True)
        for a in r["asks"]:
            got = r["outputs"][a.rid]
            assert got == plain[a.rid][: len(got)]
            assert a.rid in r["aborted"] or len(got) == a.tokens
        assert r["aborted"] == [r["victim"]]
        assert 0 < len(r["outputs"][r["victim"]]) < {a.rid: a.tokens for a in r["asks"]}[r["victim"]]


def twelve_with_retraction(path: str, pair: Pair, asks: list[Ask], opts: dict[str, Any]) -> Run:
    engine = Engine(path, *pair, **opts)
    for i, ask in enumerate(asks):
        loads.submit(engine, ask, at_step=3 * i)
    return runs.finish(engine)


def twelve() -> list[Ask]:
    rng = random.Random(21)
    return [Ask(f"w{i:02d}", loads.prompt(rng, rng.randint(5, 40)), 128) for i in range(12)]


@pytest.fixture(scope="module")
def plain_twelve(pair: Pair) -> dict[str, list[int]]:
    return runs.in_child(runs.plain_reference, pair, twelve())


@pytest.mark.parametrize(
    ("path", "sync", "page"),
    [
        ("v1", "eager", 16),
        ("v2", "lazy", 1),
        pytest.param("v1", "lazy", 1, marks=pytest.mark.slow),
        pytest.param("v2", "eager", 16, marks=pytest.mark.slow),
    ],
)
def test_retraction_every_third_forward(
    pair: Pair, plain_twelve: dict[str, list[int]], path: str, sync: str, page: int
) -> None:
    """Field case A10: complete outputs, counted as retractions, while the batch keeps crossing the threshold."""
    opts = runs.options(4, sync, page=page, speculative_switch_dwell=3)
    run = runs.in_child(
        twelve_with_retraction, path, pair, twelve(), opts, env=runs.retraction(every=3), timeout=600
    )
    assert [len(ids) for ids in run.outputs.values()] == [128] * 12
    assert run.outputs == plain_twelve
    assert set(run.finish.values()) == {"length"}
    assert run.retractions >= 12
    must_be_clean(run)
    assert run.report["switches"] >= 2
