"""Loads that change over time, against the scripted server: slots follow the shape, due times are kept or shown."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise

import pytest

from fakes.fake_server import Behaviour, FakeServer, server_process, serving
from fakes.script import Step as Scripted
from load.support import NumberedPrompts
from specswitch.config import Requests
from specswitch.load.over_time import run_over_time, run_over_time_sync, warm_up
from specswitch.load.shapes import Constant, Ramp, Square, Step, Trace
from specswitch.metrics.window import in_flight_curve

SHORT = Requests(output_tokens=8, prompt_tokens=8, request_timeout_s=30.0)


def level_at(result, t_s):
    """Requests in flight `t_s` seconds after the start of the load."""
    before = [n for at, n in in_flight_curve(result.records) if at <= result.started_s + t_s]
    return before[-1] if before else 0


def mean_level(result, start_s, end_s, samples=200):
    step = (end_s - start_s) / samples
    return sum(level_at(result, start_s + i * step) for i in range(samples)) / samples


async def test_slots_follow_a_square_wave_up_and_down():
    server = FakeServer(Behaviour(ttft_ms=5, itl_ms=5))
    shape = Square(low=2, high=8, period_s=1.6, duration_s=3.2)
    async with serving(server) as url:
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    assert result.stopped_by == "end"
    assert result.window is None
    assert result.in_flight_max == server.stats.in_flight_max == 8
    for low, high in ((0.3, 1.1), (1.9, 2.7)):  # half a period apart; requests last about 0.05 s
        assert mean_level(result, low, low + 0.4) == pytest.approx(2, abs=0.5)
        assert mean_level(result, high, high + 0.4) == pytest.approx(8, abs=1.0)
    assert {r.outcome for r in result.records} == {"ok"}


async def test_a_slot_that_is_no_longer_wanted_finishes_its_request_and_sends_no_other():
    server = FakeServer(Behaviour(ttft_ms=5, itl_ms=40))
    shape = Step(before=6, after=1, at_s=0.2, duration_s=0.9)
    async with serving(server) as url:
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    assert {r.outcome for r in result.records} == {"ok"}
    late = sorted((r.sent_s, r.end_s) for r in result.records if r.sent_s > result.started_s + 0.25)
    # One slot is left: its requests follow each other without overlap.
    assert late
    assert all(second[0] >= first[1] for first, second in pairwise(late))


async def test_nothing_is_sent_after_the_end_and_what_runs_is_drained():
    server = FakeServer(Behaviour(ttft_ms=5, itl_ms=20))
    shape = Ramp(low=1, high=4, duration_s=0.5)
    async with serving(server) as url:
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    assert max(r.sent_s for r in result.records) < result.started_s + 0.5
    assert max(r.end_s for r in result.records) > result.started_s + 0.5
    assert {r.outcome for r in result.records} == {"ok"}


async def test_a_load_may_begin_with_no_slot():
    server = FakeServer(Behaviour())
    async with serving(server) as url:
        shape = Step(before=0, after=2, at_s=0.3, duration_s=0.6)
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    assert min(r.sent_s for r in result.records) >= result.started_s + 0.3


async def test_slots_that_start_together_do_not_end_together():
    server = FakeServer(Behaviour(ttft_ms=5, itl_ms=20))
    async with serving(server) as url:
        shape = Step(before=0, after=8, at_s=0.1, duration_s=0.15)
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    first = [r for r in result.records if r.request_id < 8]
    assert sorted(r.completion_tokens for r in first) == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_open_loop_sends_at_the_due_times_whatever_is_still_running():
    server = FakeServer(Behaviour(ttft_ms=5, itl_ms=60))  # a request takes much longer than the gap
    shape = Constant(rate=40.0, duration_s=0.5)
    async with serving(server) as url:
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    records = sorted(result.records, key=lambda r: r.request_id)
    assert [r.scheduled_s - result.started_s for r in records] == pytest.approx(list(shape.arrivals()))
    assert all(r.sent_s >= r.scheduled_s for r in records)
    assert result.in_flight_max > 10
    assert {r.outcome for r in records} == {"ok"}


async def test_a_client_that_comes_late_shows_it_and_skips_nothing():
    """The loop of the client is held up for 0.3 s while 10 requests are due."""
    server = FakeServer(Behaviour(ttft_ms=1, itl_ms=1))
    shape = Trace(times_s=tuple(0.05 + 0.02 * i for i in range(10)))

    async def hold_up():
        await asyncio.sleep(0.04)
        time.sleep(0.3)

    async with serving(server) as url:
        holding = asyncio.create_task(hold_up())
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
        await holding
    assert len(result.records) == server.stats.requests == 10
    first = min(result.records, key=lambda r: r.request_id)
    assert first.sent_s - first.scheduled_s > 0.2


async def test_the_same_prompts_in_the_same_order_in_both_kinds_of_loop():
    server = FakeServer(Behaviour())
    prompts = NumberedPrompts()
    async with serving(server) as url:
        await run_over_time(url, prompts, SHORT, Constant(rate=30.0, duration_s=0.2))
    sent = [tuple(body) for kind, body in server.stats.events if kind == "generate"]
    assert sorted(sent) == [prompts[i] for i in range(6)]


@pytest.mark.parametrize(
    "shape", [Step(before=2, after=3, at_s=5.0, duration_s=60.0), Constant(rate=50.0, duration_s=60.0)]
)
async def test_a_server_that_fails_everything_ends_the_load_soon(shape):
    server = FakeServer(Behaviour(script=(Scripted(0, 0, "", "refuse"),)))
    async with serving(server) as url:
        start_s = time.monotonic()
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape)
    assert time.monotonic() - start_s < 10
    assert result.stopped_by == "failures"
    assert {r.outcome for r in result.records} == {"failed"}


@pytest.mark.parametrize(
    "shape", [Step(before=2, after=3, at_s=5.0, duration_s=60.0), Constant(rate=5.0, duration_s=60.0)]
)
async def test_a_stop_ends_the_load_at_once_and_keeps_its_records(shape):
    stop = threading.Event()
    async with serving(FakeServer(Behaviour(itl_ms=100))) as url:
        threading.Timer(0.5, stop.set).start()
        start_s = time.monotonic()
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape, stop=stop)
    assert time.monotonic() - start_s < 5
    assert result.stopped_by == "stop"
    assert "cancelled" in {r.outcome for r in result.records}


@pytest.mark.parametrize(
    "shape", [Step(before=2, after=3, at_s=0.1, duration_s=0.2), Trace(times_s=(0.05, 0.1))]
)
async def test_a_stop_while_the_last_requests_run_cuts_them_off(shape):
    """After the shape's end; a request would take 80 s."""
    stop = threading.Event()
    async with serving(FakeServer(Behaviour(itl_ms=10_000))) as url:
        threading.Timer(0.6, stop.set).start()
        start_s = time.monotonic()
        result = await run_over_time(url, NumberedPrompts(), SHORT, shape, stop=stop)
    assert 0.5 < time.monotonic() - start_s < 5
    assert result.stopped_by == "stop"
    assert "cancelled" in {r.outcome for r in result.records}


async def test_trouble_in_the_callers_callback_comes_through_while_the_last_requests_run():
    def full_disk(record):
        raise OSError(28, "No space left on device")

    async with serving(FakeServer(Behaviour(ttft_ms=500))) as url:
        with pytest.raises(OSError, match="No space left"):
            await run_over_time(
                url, NumberedPrompts(), SHORT, Trace(times_s=(0.05, 0.1)), on_record=full_disk
            )


async def test_trouble_in_the_callers_callback_comes_through():
    def full_disk(record):
        raise OSError(28, "No space left on device")

    async with serving(FakeServer(Behaviour())) as url:
        shape = Constant(rate=20.0, duration_s=60.0)
        with pytest.raises(OSError, match="No space left"):
            await run_over_time(url, NumberedPrompts(), SHORT, shape, on_record=full_disk)


@pytest.mark.parametrize(
    ("shape", "most"),
    [(Square(low=1, high=5, period_s=9.0, duration_s=9.0), 5), (Constant(rate=20.0, duration_s=9.0), 20)],
)
def test_a_warm_up_lasts_as_long_as_asked_at_the_peak_or_rate_of_the_shape(shape, most):
    with server_process("--itl-ms", "5") as url:
        result = warm_up(url, NumberedPrompts(), SHORT, shape, 0.5)
    assert result.stopped_by == "end"
    assert max(r.sent_s for r in result.records) < result.started_s + 0.52
    if isinstance(shape, Square):
        assert result.in_flight_max == most
    else:
        assert len(result.records) == most * 0.5


def test_more_slots_than_the_system_allows_are_refused_with_the_cure():
    shape = Square(low=1, high=10**9, period_s=1.0, duration_s=1.0)
    with pytest.raises(ValueError, match="ulimit -n"):
        run_over_time_sync("http://127.0.0.1:1", NumberedPrompts(), SHORT, shape)
