"""The closed loop holds its concurrency, knows its steady window, and always hands over its records."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.request
from itertools import pairwise

import pytest

from fakes.fake_server import Behaviour, FakeServer, server_process, serving
from fakes.script import Step
from load.support import NumberedPrompts
from specswitch.config import Workload
from specswitch.load import closed_loop
from specswitch.load.closed_loop import run_closed_loop, run_sync
from specswitch.metrics.point import point_metrics
from specswitch.metrics.window import BRIDGE_S, STEADY_SHARE, in_flight_curve
from specswitch.serving import control

SHORT = Workload(output_tokens=16, prompt_tokens=8, warmup_s=0.1, window_s=0.6, request_timeout_s=30.0)


def stats_of(url):
    with urllib.request.urlopen(url + "/stats") as response:
        return json.load(response)


def longest_dip_s(result, concurrency):
    """The longest time inside the window in which fewer than 95 % were in flight, by the records."""
    window, longest, low_since = result.window, 0.0, None
    for t_s, level in [*in_flight_curve(result.records), (window.end_s, 0)]:
        if low_since is not None:
            longest = max(longest, min(t_s, window.end_s) - max(low_since, window.start_s))
        low_since = t_s if level < STEADY_SHARE * concurrency else None
    return longest


async def test_the_window_is_as_long_as_asked_at_full_concurrency_and_without_warm_up():
    server = FakeServer(Behaviour(itl_ms=2))
    async with serving(server) as url:
        result = await run_closed_loop(url, NumberedPrompts(), SHORT, 8)
    assert result.stopped_by == "window"
    assert SHORT.window_s <= result.window.length_s < SHORT.window_s + 0.5
    assert result.in_flight_max == server.stats.in_flight_max == 8
    first_of_each_slot = [r for r in result.records if r.request_id < 8]
    assert all(r.warmup and r.end_s <= result.window.start_s for r in first_of_each_slot)
    assert all(r.warmup == (r.sent_s < result.window.start_s) for r in result.records)
    assert all(r.outcome == "ok" for r in result.records)
    assert longest_dip_s(result, 8) < BRIDGE_S


async def test_the_window_waits_for_the_first_request_of_every_slot_even_without_warm_up_time():
    server = FakeServer(Behaviour(ttft_ms=10, itl_ms=20))
    workload = SHORT.model_copy(update={"warmup_s": 0.0})
    async with serving(server) as url:
        result = await run_closed_loop(url, NumberedPrompts(), workload, 4)
    first_of_each_slot = [r for r in result.records if r.request_id < 4]
    assert max(r.end_s for r in first_of_each_slot) - result.started_s >= 0.3
    assert all(r.end_s <= result.window.start_s for r in first_of_each_slot)


async def test_requests_do_not_run_in_lockstep():
    server = FakeServer(Behaviour(ttft_ms=10, itl_ms=10))
    async with serving(server) as url:
        result = await run_closed_loop(url, NumberedPrompts(), SHORT, 8)
    ends = sorted(r.end_s for r in result.records if result.window.holds(r.end_s))
    assert len(ends) >= 8
    widest = max(b - a for a, b in pairwise(ends))
    assert widest < 0.16 / 2


def test_two_hundred_requests_are_really_in_flight():
    """B8: at concurrency 200 the server itself sees 200 at once, not the 100 of a default connector."""
    workload = SHORT.model_copy(update={"window_s": 1.0, "output_tokens": 4})
    with server_process("--ttft-ms", "400", "--itl-ms", "30") as url:
        result = run_sync(url, NumberedPrompts(), workload, 200)
        stats = stats_of(url)
    assert result.in_flight_max == 200
    assert stats["in_flight_max"] == 200
    assert stats["requests"] == len(result.records)
    assert stats["tokens"] >= sum(r.completion_tokens for r in result.records)


def test_one_process_streams_five_thousand_tokens_a_second_on_one_core():
    """At concurrency 64, one token per event; the server runs in a process of its own."""
    workload = SHORT.model_copy(update={"output_tokens": 64, "window_s": 2.0})
    with server_process("--ttft-ms", "10", "--itl-ms", "8") as url:
        result = run_sync(url, NumberedPrompts(48), workload, 64)
    metrics = point_metrics(result.records, [], result.window)
    assert metrics["failed"] == 0
    assert metrics["output_tok_s"] >= 5000
    assert result.client_cpu_share <= 1.0


def test_the_same_point_twice_is_cold_only_after_a_flush():
    """B6: equal prompts meet an empty prefix cache after a flush, and the records say so when they do not."""
    with server_process() as url:
        cold = [run_sync(url, NumberedPrompts(), SHORT, 2)]
        control.flush_cache(url)
        cold.append(run_sync(url, NumberedPrompts(), SHORT, 2))
        warm = run_sync(url, NumberedPrompts(), SHORT, 2)
        events = stats_of(url)["events"]
    assert [point_metrics(r.records, [], r.window)["cached_tokens"] for r in cold] == [0, 0]
    assert point_metrics(warm.records, [], warm.window)["cached_tokens"] > 0
    flush = events.index(["flush", True])
    before = [body for kind, body in events[:flush] if kind == "generate"]
    after = [body for kind, body in events[flush + 1 :] if kind == "generate"]
    assert before[0] == after[0]
    assert len({tuple(b) for b in before}) == len(before)


async def test_raw_records_are_out_before_anything_is_computed():
    """B2: each record reaches the caller as soon as its request is over, so no later trouble loses it."""
    seen, order = [], []
    async with serving(FakeServer(Behaviour())) as url:
        result = await run_closed_loop(
            url,
            NumberedPrompts(),
            SHORT,
            2,
            on_record=lambda r: (seen.append(r), order.append(time.monotonic() - r.end_s)),
        )
    assert tuple(seen) == result.records
    assert max(order) < 0.5


async def test_trouble_in_the_callers_callback_comes_through_and_stops_the_load():
    def full_disk(record):
        raise OSError(28, "No space left on device")

    async with serving(FakeServer(Behaviour())) as url:
        with pytest.raises(OSError, match="No space left"):
            await run_closed_loop(url, NumberedPrompts(), SHORT, 4, on_record=full_disk)


async def test_a_server_that_fails_everything_ends_the_run_soon_without_a_window():
    server = FakeServer(Behaviour(script=(Step(0, 0, "", "refuse"),)))
    async with serving(server) as url:
        start = time.monotonic()
        result = await run_closed_loop(url, NumberedPrompts(), SHORT, 2)
    assert time.monotonic() - start < 10
    assert result.stopped_by == "failures"
    assert result.window is None
    assert {r.error for r in result.records} == {"HTTP 503: scripted refusal"}


async def test_a_server_that_hangs_ends_the_run_after_one_request_timeout():
    server = FakeServer(Behaviour(script=(Step(60_000, 1, "a"),)))
    workload = SHORT.model_copy(update={"request_timeout_s": 0.5})
    async with serving(server) as url:
        start = time.monotonic()
        result = await run_closed_loop(url, NumberedPrompts(), workload, 2)
    assert time.monotonic() - start < 5
    assert result.stopped_by == "failures"


async def test_the_window_begins_anew_after_a_dip(monkeypatch):
    """B7: a time in which a slot is not filled is not in the window, however late it comes."""
    monkeypatch.setattr(closed_loop, "RETRY_S", 0.4)
    server = FakeServer(Behaviour(itl_ms=1))
    start_s, failed_s = time.monotonic(), []

    def once_refuse(record):
        if record.outcome == "failed":
            failed_s.append(record.end_s)
            server.play(None)
        elif not failed_s and record.end_s > start_s + 0.4:  # in the middle of the first window
            server.play((Step(0, 0, "", "refuse"),))

    async with serving(server) as url:
        result = await run_closed_loop(url, NumberedPrompts(), SHORT, 8, on_record=once_refuse)
    assert result.stopped_by == "window"
    assert result.window.start_s > max(failed_s) + 0.35
    assert longest_dip_s(result, 8) < BRIDGE_S


async def test_single_failures_do_not_end_the_run_and_are_counted():
    steps = (Step(1, 1, "a"), Step(1, 15, "b"))
    server = FakeServer(Behaviour(script=steps))
    async with serving(server) as url:
        task = asyncio.create_task(run_closed_loop(url, NumberedPrompts(), SHORT, 2))
        await asyncio.sleep(0.3)
        server.play((Step(0, 0, "", "refuse"),))
        await asyncio.sleep(0.02)
        server.play(steps)
        result = await task
    metrics = point_metrics(result.records, [], result.window)
    assert metrics["failed"] > 0
    assert result.stopped_by == "window"
    assert "HTTP 503: scripted refusal" in metrics["errors"]


@pytest.mark.parametrize("concurrency", [0, -1])
def test_no_concurrency_is_an_error_not_unlimited(concurrency):
    """B8: concurrency 0 is refused."""
    with pytest.raises(ValueError, match="must be at least 1"):
        run_sync("http://127.0.0.1:1", NumberedPrompts(), SHORT, concurrency)


def test_more_connections_than_the_system_allows_are_refused_with_the_cure():
    """B8: the load never hits a hidden limit; it says beforehand what to raise."""
    with pytest.raises(ValueError, match="ulimit -n"):
        run_sync("http://127.0.0.1:1", NumberedPrompts(), SHORT, 10**9)


async def test_run_sync_works_inside_a_running_loop():
    """C12: the same call in a notebook cell, whose kernel has a loop, and from an async cell."""
    with server_process() as url:
        blocking = run_sync(url, NumberedPrompts(), SHORT, 2)
        awaited = await run_closed_loop(url, NumberedPrompts(), SHORT, 2)
    assert blocking.stopped_by == awaited.stopped_by == "window"


def test_run_sync_works_without_a_loop_and_a_stop_event_ends_it_at_once():
    """C12: a stop event set from another thread ends the point and keeps its records."""
    stop = threading.Event()
    endless = SHORT.model_copy(update={"window_s": 600.0})
    with server_process("--itl-ms", "5") as url:
        threading.Timer(0.8, stop.set).start()
        start = time.monotonic()
        result = run_sync(url, NumberedPrompts(), endless, 4, stop=stop)
        assert time.monotonic() - start < 5
    assert result.stopped_by == "stop"
    assert result.window is None
    assert sum(r.outcome == "cancelled" for r in result.records) == 4
    assert any(r.outcome == "ok" for r in result.records)


async def test_a_stop_while_the_last_requests_run_cuts_them_off_and_keeps_the_window():
    """The first requests of both slots are quick, the next ones would take 20 minutes."""
    stop = threading.Event()
    server = FakeServer(Behaviour())
    workload = SHORT.model_copy(update={"output_tokens": 2, "window_s": 0.4})

    def slow_down(record):
        server.play((Step(1, 1, "a"), Step(1_200_000, 1, "b")))

    async with serving(server) as url:
        threading.Timer(1.5, stop.set).start()
        start = time.monotonic()
        result = await run_closed_loop(url, NumberedPrompts(), workload, 2, on_record=slow_down, stop=stop)
    assert 1.4 < time.monotonic() - start < 6
    assert result.stopped_by == "stop"
    assert result.window is not None
    assert sum(r.outcome == "cancelled" for r in result.records) == 2


def test_all_lengths_are_what_was_planned():
    """B10: 128 prompt tokens and 64 output tokens, each of them, by the server's count."""
    workload = SHORT.model_copy(update={"prompt_tokens": 128, "output_tokens": 64})
    with server_process("--itl-ms", "1") as url:
        result = run_sync(url, NumberedPrompts(128), workload, 2)
    metrics = point_metrics([r for r in result.records if not r.warmup], [], result.window)
    assert metrics["prompt_lengths"] == {"min": 128, "mean": 128.0, "max": 128}
    assert metrics["output_lengths"] == {"min": 64, "mean": 64.0, "max": 64}
