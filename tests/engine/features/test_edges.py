"""Edge batches, aborts and streams (field cases A11, A21)."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from engine.children import in_process
from engine.features.arms import (
    STRICT,
    Client,
    Pair,
    plain_server,
    prompt,
    run_modes,
)
from engine.harness import Engine

THRESHOLD = 4


def edges(client: Client) -> None:
    """No token, one token, one-token prompts, everyone ending in the same step, silence in between."""
    client.submit("nothing", prompt(0, 9), {"max_new_tokens": 0})
    client.submit("one", prompt(1, 9), {"max_new_tokens": 1})
    for i in range(6):
        client.submit(f"together{i}", prompt(2 + i, 5), {"max_new_tokens": 7, "ignore_eos": True}, at=20)
        client.submit(f"tiny{i}", prompt(20 + i, 1), {"max_new_tokens": 2 + i, "ignore_eos": True}, at=60 + i)
    client.submit("late", prompt(40, 3), {"max_new_tokens": 20, "ignore_eos": True}, at=150)
    client.submit("large", prompt(41, 300), {"max_new_tokens": 1, "ignore_eos": True}, at=155)


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_edge_batches_end_as_on_the_plain_server(pair: Pair, path: str) -> None:
    plain = plain_server(pair, edges)
    for mode, outcome in run_modes(path, pair, edges).items():
        assert outcome.ids == plain.ids, mode
        reasons = {name: a.reason for name, a in outcome.answers.items()}
        assert reasons == {name: a.reason for name, a in plain.answers.items()}


def abort_scenario(path: str, pair: Pair) -> dict[str, Any]:
    engine = Engine(
        path, *pair, speculative_disable_batch_threshold=THRESHOLD, specswitch_check=True, page_size=16
    )
    for i in range(6):
        engine.submit(prompt(i, 8), {"max_new_tokens": 300, "ignore_eos": True}, rid=f"s{i}")
    engine.step(20)
    before = engine.worker.switch.mode.value, len(engine.running())
    for i in range(4):
        engine.abort(f"s{i}")
    after = []
    for _ in range(4):
        engine.step()
        after.append((engine.worker.switch.mode.value, len(engine.running())))
    results = engine.run()
    reasons = [results[f"s{i}"].finish_reason["type"] for i in range(6)]
    survivors = {f"s{i}": results[f"s{i}"].output_ids for i in (4, 5)}
    return {"before": before, "after": after, "reasons": reasons, "ids": survivors, "flushed": engine.flush()}


def survivors(client: Client) -> None:
    for i in (4, 5):
        client.submit(f"s{i}", prompt(i, 8), {"max_new_tokens": 300, "ignore_eos": True})


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_aborted_requests_leave_the_batch_and_speculation_comes_back(pair: Pair, path: str) -> None:
    seen = in_process(functools.partial(abort_scenario, path, pair), env=STRICT)
    assert seen["before"] == ("plain", 6)
    assert seen["after"][-1] == ("speculative", 2), f"four steps after the abort: {seen['after']}"
    assert seen["reasons"] == ["abort"] * 4 + ["length"] * 2
    assert seen["ids"] == plain_server(pair, survivors).ids
    assert seen["flushed"]


def streams(client: Client) -> Any:
    """Streamed requests among others; afterwards: what went out for each, chunk by chunk."""
    for i in range(5):
        params = {"max_new_tokens": 25 + 5 * i, "ignore_eos": True}
        client.submit(f"stream{i}", prompt(i, 6 + i), params, at=2 * i, stream=True)
    client.submit("whole", prompt(9, 6), {"max_new_tokens": 30, "ignore_eos": True})
    first = len(client.engine.outbox)
    return functools.partial(_chunks, first)


def _chunks(first: int, client: Client) -> dict[str, list[tuple[list[int], bool]]]:
    names = {rid: name for name, rid in client.rids.items()}
    found: dict[str, list[tuple[list[int], bool]]] = {name: [] for name in client.rids}
    for message in client.engine.outbox[first:]:
        for rid, ids, reason in zip(
            getattr(message, "rids", None) or [],
            getattr(message, "output_ids", None) or [],
            getattr(message, "finished_reasons", None) or [],
            strict=True,
        ):
            found[names[rid]].append((list(ids), reason is not None))
    return found


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_streamed_chunks_join_to_the_plain_servers_output(pair: Pair, path: str) -> None:
    plain = plain_server(pair, streams)
    for mode, outcome in run_modes(path, pair, streams).items():
        for name, chunks in outcome.extra.items():
            assert [t for ids, _ in chunks for t in ids] == plain.ids[name]
            assert [end for _, end in chunks] == [False] * (len(chunks) - 1) + [True], "one end, at the end"
            if mode == "off" and name != "whole":
                assert all(len(ids) == 1 for ids, _ in chunks), "a plain step streams one token"
        assert outcome.ids == plain.ids
