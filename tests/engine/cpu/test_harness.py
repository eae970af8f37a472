"""The in-process vehicle: exact iterations, control, errors that reach the test, a clean parent process."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.harness import Engine, in_process

pytestmark = pytest.mark.engine

Pair = tuple[Path, Path]
LONG = {"max_new_tokens": 30, "ignore_eos": True}


def arrivals(pair: Pair, path: str) -> list[list[str]]:
    engine = Engine(path, *pair)
    engine.submit([1, 2, 3], LONG, at_step=0, rid="first")
    engine.submit([4, 5, 6], LONG, at_step=4, rid="second")
    seen = []
    for _ in range(7):
        engine.step()
        seen.append(sorted({r.rid for r in [*engine.scheduler.cur_batch.reqs]}))
    return seen


@pytest.mark.parametrize("path", ["none", "v1", "v2"])
def test_requests_enter_at_the_iteration_they_were_submitted_for(pair: Pair, path: str) -> None:
    both = ["first", "second"]
    assert in_process(arrivals, pair, path) == [["first"]] * 4 + [["second"], both, both]


def aborted(pair: Pair) -> tuple[Any, int, Any]:
    engine = Engine("v2", *pair)
    stays = engine.submit([1, 2, 3], LONG)
    goes = engine.submit([7, 8, 9], LONG)
    engine.step(4)
    engine.abort(goes)
    results = engine.run()
    return results[goes].finish_reason["type"], len(results[goes].output_ids), results[stays].finish_reason


def test_an_abort_ends_one_request_and_leaves_the_other(pair: Pair) -> None:
    kind, length, other = in_process(aborted, pair)
    assert kind == "abort"
    assert 0 < length < 30
    assert other == {"type": "length", "length": 30}


def flushed(pair: Pair) -> tuple[bool, bool, list[int]]:
    engine = Engine("v1", *pair)
    cached = []
    prompt = list(range(50))
    for _ in range(2):
        cached.append(engine.generate([prompt], LONG)[-1].meta["cached_tokens"])
    idle = engine.flush()
    cached.append(engine.generate([prompt], LONG)[-1].meta["cached_tokens"])
    engine.submit([1, 2], LONG)
    engine.step(2)
    return idle, engine.flush(), cached


def test_flush_empties_the_prefix_cache_unless_the_scheduler_is_busy(pair: Pair) -> None:
    idle, busy, cached = in_process(flushed, pair)
    assert (idle, busy) == (True, False)
    assert cached == [0, 48, 0]  # all but the last token, and one less: the draft pairs tokens


def broken(pair: Pair) -> None:
    engine = Engine("none", *pair)
    engine.submit([1, 2, 3], LONG)
    engine.step(2)
    engine.scheduler.run_batch = None
    engine.step()


def test_an_exception_in_the_scheduler_reaches_the_test(pair: Pair) -> None:
    with pytest.raises(RuntimeError, match=r"event_loop_overlap(.|\n)*'NoneType' object is not callable"):
        in_process(broken, pair)


def leaky(pair: Pair) -> None:
    engine = Engine("v1", *pair)
    engine.submit([1, 2, 3], {"max_new_tokens": 200, "ignore_eos": True})
    engine.step(5)
    engine.scheduler.token_to_kv_pool_allocator.alloc(3)
    engine.step()


def test_the_engines_own_leak_check_is_on_when_asked_for(pair: Pair) -> None:
    in_process(leaky, pair)
    with pytest.raises(AssertionError, match="Leak Detected"):
        in_process(leaky, pair, env={"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1"})


def late(pair: Pair) -> None:
    engine = Engine("none", *pair)
    engine.step(3)
    engine.submit([1], at_step=1)


def test_a_request_for_an_iteration_that_has_passed_is_refused(pair: Pair) -> None:
    with pytest.raises(RuntimeError, match="at_step=1 has passed, the next iteration is 3"):
        in_process(late, pair)


def dies() -> None:
    os.write(2, b"last words\n")
    os._exit(3)


def test_a_scenario_that_dies_leaves_its_log_in_the_error() -> None:
    with pytest.raises(RuntimeError, match=r"died\n(.|\n)*last words"):
        in_process(dies)


def environment(name: str) -> str | None:
    return os.environ.get(name)


def test_the_childs_environment_is_not_the_parents() -> None:
    variables, modules = dict(os.environ), set(sys.modules)
    assert in_process(environment, "SPECSWITCH_CPU") == "1"
    assert in_process(environment, "SOMETHING", env={"SOMETHING": "x"}) == "x"
    assert dict(os.environ) == variables
    assert not {m for m in set(sys.modules) - modules if m.startswith(("sglang", "triton"))}
