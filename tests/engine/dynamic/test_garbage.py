"""What a request or a step held is freed when it is over, not whenever the garbage collector looks.

A server has millions of objects, so the collector's full round comes after thousands of requests: objects that hold
each other until then are growing memory, on a GPU the step's tensors with them. Stock workers leave none.
"""

from __future__ import annotations

import functools
import gc
from collections import Counter

import pytest

from engine.dynamic import loads, runs
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine

STOPS = {"stop": ["the"], "max_new_tokens": 30}


def garbage_of_a_load(path: str, pair: Pair, opts: dict) -> tuple[Counter[str], int, int]:
    """Types of the objects that only the collector would have freed; requests and switches of the load."""
    from specswitch.engine import liveness

    engine = Engine(path, *pair, **opts)
    serve(engine, loads.random_requests(8, seed=1, longest=32))
    gc.collect()
    gc.disable()
    asks = loads.random_requests(24, seed=2, longest=48, aborted=0.1)
    serve(engine, [loads.Ask(f"later-{a.rid}", a.prompt, a.tokens, a.abort_after) for a in asks])
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    found = Counter(type(one).__name__ for one in gc.garbage)
    return found, len(asks), liveness.report(engine.scheduler)["switches"]


def serve(engine: Engine, asks: list[loads.Ask]) -> None:
    """Serve these and one that may stop at a string; keep nothing of them."""
    engine.submit(asks[0].prompt, STOPS, rid=f"stops-{asks[0].rid}")
    loads.run_closed_loop(engine, asks, loads.alternating(period=10))
    for kept in (engine.requests, engine.outbox, engine._results, engine._expected):
        kept.clear()


@pytest.mark.parametrize(
    ("path", "sync"),
    [("v2", "lazy"), ("v2", "eager"), ("v1", "lazy"), pytest.param("v2", "stale", marks=pytest.mark.slow)],
)
def test_a_load_leaves_nothing_to_the_garbage_collector(path: str, sync: str, pair: Pair):
    scenario = functools.partial(garbage_of_a_load, path, pair, runs.options(4, sync))
    found, requests, switches = runs.in_child(scenario)
    assert switches >= 4
    assert not found, f"after {requests} requests: {found.most_common(12)}"
