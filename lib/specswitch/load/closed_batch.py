"""A closed batch: C requests sent at once and none replaced, so that no prefill disturbs the decode steps.

A closed loop with refill shows what users get, prefills included. Where the question is what a decode step
costs, and prefill of short prompts takes half of the time, a closed batch tells more, and sooner. The steady
window begins when the last request has its first token and ends when the batch begins to shrink.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence

from specswitch.config import Workload
from specswitch.load.own_loop import run_in_own_loop
from specswitch.load.sender import TICK_S, LoadResult, PromptSource, Sender, StoppedBy, check_concurrency
from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import STEADY_SHARE, Window


def run_closed_batch_sync(
    url: str,
    prompts: PromptSource,
    workload: Workload,
    concurrency: int,
    *,
    stop: threading.Event | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """Send prompts 0 to `concurrency` - 1 to the server at `url` at once and follow every answer to its end.

    `stop` ends the run at once, from any thread; `api_key`: the server's, if it has one. The window is None when a
    request failed.

    Raises ValueError for a concurrency below 1 or beyond what the open-file limit allows.
    """
    check_concurrency(concurrency)
    halt = stop or threading.Event()

    async def run() -> LoadResult:
        sender = Sender(url, prompts, workload, None, halt, api_key)
        async with sender:
            requests = [asyncio.create_task(sender.send(workload.output_tokens)) for _ in range(concurrency)]
            stopped_by = await _watch(sender, requests)
            if stopped_by != "window":
                for request in requests:
                    request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
        window = batch_window(sender.records, concurrency) if stopped_by == "window" else None
        return sender.result(stopped_by, window)

    return run_in_own_loop(run, on_interrupt=halt.set)


def batch_window(records: Sequence[RequestRecord], concurrency: int) -> Window | None:
    """From when 95 % have their first token until fewer than 95 % are left; None when not all succeeded."""
    if len(records) < concurrency or any(r.outcome != "ok" or not r.token_times_s for r in records):
        return None
    need = math.ceil(STEADY_SHARE * concurrency)
    start_s = sorted(r.token_times_s[0] for r in records)[need - 1]
    end_s = sorted(r.end_s for r in records)[concurrency - need]
    return Window(start_s, end_s) if end_s > start_s else None


async def _watch(sender: Sender, requests: Sequence[asyncio.Task[RequestRecord]]) -> StoppedBy:
    """Wait for every request; returns what ended the run."""
    while not all(request.done() for request in requests):
        await asyncio.sleep(TICK_S)
        if sender.asked_to_stop():
            return "stop"
        if sender.hopeless(time.monotonic(), len(requests)):
            return "failures"
    return "failures" if all(r.outcome == "failed" for r in sender.records) else "window"
