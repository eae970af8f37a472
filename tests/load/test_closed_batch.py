"""A closed batch sends once, replaces nobody, and its window holds decode steps of the whole batch only."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from fakes.fake_server import Behaviour, FakeServer, server_process, serving
from load.support import NumberedPrompts
from specswitch.config import Workload
from specswitch.load.closed_batch import batch_window, run_closed_batch_sync
from specswitch.metrics.point import point_metrics

ONCE = Workload(output_tokens=32, prompt_tokens=8, refill=False, request_timeout_s=30.0)


def test_each_request_is_sent_once_and_the_window_lies_between_first_tokens_and_first_end():
    with server_process("--ttft-ms", "30", "--itl-ms", "5") as url:
        result = run_closed_batch_sync(url, NumberedPrompts(), ONCE, 8)
    assert result.stopped_by == "window"
    assert sorted(r.request_id for r in result.records) == list(range(8))
    assert result.in_flight_max == 8
    assert result.window.start_s >= max(r.token_times_s[0] for r in result.records)
    assert result.window.end_s == min(r.end_s for r in result.records)
    row = point_metrics(result.records, [], result.window)
    assert row["output_tok_s"] == pytest.approx(8 / 0.005, rel=0.15), "a token per request every 5 ms"
    assert row["output_tok_s_whole_run"] < row["output_tok_s"], "the whole run has the prefill in it"


async def test_stopping_ends_it_at_once():
    stop = threading.Event()
    async with serving(FakeServer(Behaviour(ttft_ms=10, itl_ms=500))) as url:
        threading.Timer(0.5, stop.set).start()
        began_s = time.monotonic()
        result = await asyncio.to_thread(run_closed_batch_sync, url, NumberedPrompts(), ONCE, 2, stop=stop)
    assert result.stopped_by == "stop"
    assert result.window is None
    assert time.monotonic() - began_s < 5


def test_failures_leave_no_window():
    result = run_closed_batch_sync("http://127.0.0.1:9", NumberedPrompts(), ONCE, 3)
    assert result.stopped_by == "failures"
    assert result.window is None
    assert {r.outcome for r in result.records} == {"failed"}


@pytest.mark.parametrize(("size", "spare"), [(1, 0), (8, 0), (20, 1), (64, 3), (256, 12)])
def test_the_window_holds_the_time_in_which_95_percent_decode(size, spare):
    class Record:
        outcome = "ok"

        def __init__(self, i):
            self.token_times_s, self.end_s = [1.0 + i / 1000], 10.0 + i

    window = batch_window([Record(i) for i in range(size)], size)
    assert window.end_s == 10.0 + spare
    assert window.start_s == 1.0 + (size - spare - 1) / 1000
