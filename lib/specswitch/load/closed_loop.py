"""Closed loop: hold C requests in flight, and note the time in which that really was so.

C slots each send their next request as soon as the last one ended. The run has three parts: warm-up at full
concurrency, the steady window, and the drain. To keep the slots from finishing in lockstep for the whole run,
slot i asks for only (i + 1) / C of the output tokens in its first request; the window begins when all these
first requests are over.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time

from specswitch.config import Workload
from specswitch.load.own_loop import run_in_own_loop
from specswitch.load.sender import (
    RETRY_S,
    TICK_S,
    LoadResult,
    OnRecord,
    PromptSource,
    Sender,
    StopEvent,
    StoppedBy,
    check_concurrency,
)
from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import BRIDGE_S, STEADY_SHARE, Window


async def run_closed_loop(
    url: str,
    prompts: PromptSource,
    workload: Workload,
    concurrency: int,
    *,
    on_record: OnRecord | None = None,
    stop: StopEvent | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """Load the server at `url` with `concurrency` requests in flight until the steady window is complete.

    `prompts[i]` is the prompt of request i, i = 0, 1, 2, ... `on_record` gets each record as soon as its
    request is over (write it to disk there: no later trouble can lose it). `stop` ends the run at once, from
    any thread. After the window the running requests may finish: the engine notices a cut only some seconds later.
    `api_key`: if the server wants one.

    The run gives up when every slot fails in a row or nothing succeeds within the request timeout; the
    records tell why. Raises ValueError for a concurrency below 1 or beyond what the open-file limit allows,
    and whatever `on_record` raises.
    """
    check_concurrency(concurrency)
    sender = Sender(url, prompts, workload, on_record, stop, api_key)
    return await _ClosedLoop(sender, workload, concurrency).run()


def run_sync(
    url: str,
    prompts: PromptSource,
    workload: Workload,
    concurrency: int,
    *,
    on_record: OnRecord | None = None,
    stop: threading.Event | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """`run_closed_loop` for code that is not async: works with and without a running event loop.

    `on_record` is called in the load's own thread. An interrupt sets `stop` and comes through.
    """
    halt = stop or threading.Event()
    return run_in_own_loop(
        lambda: run_closed_loop(
            url,
            prompts,
            workload,
            concurrency,
            on_record=on_record,
            stop=halt,
            api_key=api_key,
        ),
        on_interrupt=halt.set,
    )


def first_tokens(output_tokens: int, slot: int, slots: int) -> int:
    """Tokens to ask for in the first request of `slot`, so that `slots` slots do not finish in lockstep."""
    return math.ceil(output_tokens * (slot + 1) / slots)


class _ClosedLoop:
    """State of one run. Everything happens in one event loop, so plain attributes are enough."""

    def __init__(self, sender: Sender, workload: Workload, concurrency: int) -> None:
        self._sender = sender
        self._workload = workload
        self._concurrency = concurrency
        self._slots_warm = 0
        self._refilling = True
        self._window_start_s: float | None = None
        self._window_end_s: float | None = None

    async def run(self) -> LoadResult:
        try:
            async with self._sender, asyncio.TaskGroup() as group:
                slots = [group.create_task(self._slot(i)) for i in range(self._concurrency)]
                stopped_by = await self._watch(self._sender.started_s)
                self._refilling = False
                if stopped_by == "window" and not await self._sender.drained(slots):
                    stopped_by = "stop"
                if stopped_by != "window":
                    for slot in slots:
                        slot.cancel()
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None
        window = None
        if self._window_start_s is not None and self._window_end_s is not None:
            window = Window(self._window_start_s, self._window_end_s)
        return self._sender.result(stopped_by, window)

    async def _slot(self, slot: int) -> None:
        """Send one request after the other while the load is refilled."""
        output_tokens = self._workload.output_tokens
        record = await self._send(first_tokens(output_tokens, slot, self._concurrency))
        self._slots_warm += 1
        while self._refilling:
            if record.outcome == "failed":
                await asyncio.sleep(RETRY_S)
            record = await self._send(output_tokens)

    async def _send(self, output_tokens: int) -> RequestRecord:
        return await self._sender.send(output_tokens, warmup=self._window_start_s is None)

    async def _watch(self, started_s: float) -> StoppedBy:
        """Find the steady window while it happens; returns what ended the run."""
        need = STEADY_SHARE * self._concurrency
        full_s = started_s
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            if self._sender.asked_to_stop():
                return "stop"
            if self._sender.hopeless(now_s, self._concurrency):
                return "failures"
            if self._sender.in_flight >= need:
                full_s = now_s
            elif now_s - full_s > BRIDGE_S:
                self._window_start_s = None
            if self._window_start_s is None:
                if self._warm(started_s, now_s) and self._sender.in_flight >= need:
                    self._window_start_s = now_s
            elif now_s - self._window_start_s >= self._workload.window_s:
                self._window_end_s = now_s
                return "window"

    def _warm(self, started_s: float, now_s: float) -> bool:
        return self._slots_warm == self._concurrency and now_s - started_s >= self._workload.warmup_s
