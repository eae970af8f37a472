"""Closed loop: hold C requests in flight, and note the time in which that really was so.

C slots each send their next request as soon as the last one ended. The run has three parts: warm-up at full
concurrency, the steady window, and the drain. To keep the slots from finishing in lockstep for the whole run,
slot i asks for only (i + 1) / C of the output tokens in its first request; the window begins when all these
first requests are over.
"""

from __future__ import annotations

import asyncio
import math
import resource
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from specswitch.config import Workload
from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.load.own_loop import run_in_own_loop
from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import BRIDGE_S, STEADY_SHARE, Window

TICK_S = 0.01
RETRY_S = 0.1
FAILURES_IN_A_ROW = 10
SPARE_FILES = 64

Ending = Literal["drain", "cancel"]
StoppedBy = Literal["window", "stop", "failures"]
OnRecord = Callable[[RequestRecord], Any]
StopEvent = threading.Event | asyncio.Event


class PromptSource(Protocol):
    """Anything that gives the token ids of prompt number i (`prompts.Prompts` does)."""

    def __getitem__(self, index: int, /) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run of the load left. Times are CLOCK_MONOTONIC seconds.

    `window`: the steady window that was asked for; None when the run ended before it was complete
    (`stopped_by` says why). `in_flight_max`: the most requests the client ever had in flight. `client_cpu_s`:
    CPU time of the client's thread.
    """

    records: tuple[RequestRecord, ...]
    window: Window | None
    in_flight_max: int
    client_cpu_s: float
    started_s: float
    ended_s: float
    stopped_by: StoppedBy

    @property
    def client_cpu_share(self) -> float:
        """CPU share of the client's one thread, 0 to 1. Near 1 the client, not the server, was measured."""
        return self.client_cpu_s / (self.ended_s - self.started_s)


async def run_closed_loop(
    url: str,
    prompts: PromptSource,
    workload: Workload,
    concurrency: int,
    *,
    on_record: OnRecord | None = None,
    stop: StopEvent | None = None,
    ending: Ending = "drain",
) -> LoadResult:
    """Load the server at `url` with `concurrency` requests in flight until the steady window is complete.

    `prompts[i]` is the prompt of request i, i = 0, 1, 2, ... `on_record` gets each record as soon as its
    request is over (write it to disk there: no later trouble can lose it). `stop` ends the run at once, from
    any thread. `ending`: after the window `drain` lets the running requests finish, `cancel` cuts them off;
    the engine notices a cut only some seconds later, so drain is the clean one.

    The run gives up when every slot fails in a row or nothing succeeds within the request timeout; the
    records tell why. Raises ValueError for a concurrency below 1 or beyond what the open-file limit allows,
    and whatever `on_record` raises.
    """
    _check_concurrency(concurrency)
    loop = _ClosedLoop(url, prompts, workload, concurrency, on_record=on_record, stop=stop, ending=ending)
    return await loop.run()


def run_sync(
    url: str,
    prompts: PromptSource,
    workload: Workload,
    concurrency: int,
    *,
    on_record: OnRecord | None = None,
    stop: threading.Event | None = None,
    ending: Ending = "drain",
) -> LoadResult:
    """`run_closed_loop` for code that is not async: works with and without a running event loop.

    `on_record` is called in the load's own thread. An interrupt sets `stop` and comes through.
    """
    halt = stop or threading.Event()
    return run_in_own_loop(
        lambda: run_closed_loop(
            url, prompts, workload, concurrency, on_record=on_record, stop=halt, ending=ending
        ),
        on_interrupt=halt.set,
    )


def _check_concurrency(concurrency: int) -> None:
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}: must be at least 1 (0 does not mean unlimited)")
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and concurrency + SPARE_FILES > files:
        raise ValueError(
            f"concurrency={concurrency} needs as many connections, but the open-file limit is {files}: "
            f"raise it with `ulimit -n {concurrency + SPARE_FILES}`"
        )


class _ClosedLoop:
    """State of one run. Everything happens in one event loop, so plain attributes are enough."""

    def __init__(
        self,
        url: str,
        prompts: PromptSource,
        workload: Workload,
        concurrency: int,
        *,
        on_record: OnRecord | None,
        stop: StopEvent | None,
        ending: Ending,
    ) -> None:
        self._client = GenerateClient(url, workload.request_timeout_s)
        self._prompts = prompts
        self._workload = workload
        self._concurrency = concurrency
        self._on_record = on_record
        self._stop = stop
        self._ending = ending
        self._records: list[RequestRecord] = []
        self._next_id = 0
        self._in_flight = 0
        self._in_flight_max = 0
        self._slots_warm = 0
        self._failures_in_a_row = 0
        self._last_success_s = 0.0
        self._refilling = True
        self._window_start_s: float | None = None
        self._window_end_s: float | None = None

    async def run(self) -> LoadResult:
        started_s, cpu_s = time.monotonic(), time.thread_time()
        self._last_success_s = started_s
        try:
            async with self._client, asyncio.TaskGroup() as group:
                slots = [group.create_task(self._slot(i)) for i in range(self._concurrency)]
                stopped_by = await self._watch(started_s)
                self._refilling = False
                if stopped_by != "window" or self._ending == "cancel":
                    for slot in slots:
                        slot.cancel()
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None
        window = None
        if self._window_start_s is not None and self._window_end_s is not None:
            window = Window(self._window_start_s, self._window_end_s)
        return LoadResult(
            records=tuple(self._records),
            window=window,
            in_flight_max=self._in_flight_max,
            client_cpu_s=time.thread_time() - cpu_s,
            started_s=started_s,
            ended_s=time.monotonic(),
            stopped_by=stopped_by,
        )

    async def _slot(self, slot: int) -> None:
        """Send one request after the other while the load is refilled."""
        output_tokens = self._workload.output_tokens
        record = await self._send(math.ceil(output_tokens * (slot + 1) / self._concurrency))
        self._slots_warm += 1
        while self._refilling:
            if record.outcome == "failed":
                await asyncio.sleep(RETRY_S)
            record = await self._send(output_tokens)

    async def _send(self, output_tokens: int) -> RequestRecord:
        request = GenerateRequest(
            request_id=self._next_id,
            input_ids=tuple(self._prompts[self._next_id]),
            output_tokens=output_tokens,
            scheduled_s=time.monotonic(),
            ignore_eos=self._workload.ignore_eos,
            temperature=self._workload.temperature,
            warmup=self._window_start_s is None,
        )
        self._next_id += 1
        self._in_flight += 1
        self._in_flight_max = max(self._in_flight_max, self._in_flight)
        try:
            return await self._client.generate(request, self._take)
        finally:
            self._in_flight -= 1

    def _take(self, record: RequestRecord) -> None:
        self._records.append(record)
        if record.outcome == "ok":
            self._failures_in_a_row = 0
            self._last_success_s = record.end_s
        elif record.outcome == "failed":
            self._failures_in_a_row += 1
        if self._on_record is not None:
            self._on_record(record)

    async def _watch(self, started_s: float) -> StoppedBy:
        """Find the steady window while it happens; returns what ended the run."""
        need = STEADY_SHARE * self._concurrency
        full_s = started_s
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            if self._stop is not None and self._stop.is_set():
                return "stop"
            if self._given_up(now_s):
                return "failures"
            if self._in_flight >= need:
                full_s = now_s
            elif now_s - full_s > BRIDGE_S:
                self._window_start_s = None
            if self._window_start_s is None:
                if self._warm(started_s, now_s) and self._in_flight >= need:
                    self._window_start_s = now_s
            elif now_s - self._window_start_s >= self._workload.window_s:
                self._window_end_s = now_s
                return "window"

    def _warm(self, started_s: float, now_s: float) -> bool:
        return self._slots_warm == self._concurrency and now_s - started_s >= self._workload.warmup_s

    def _given_up(self, now_s: float) -> bool:
        if self._failures_in_a_row >= max(FAILURES_IN_A_ROW, self._concurrency):
            return True
        silent_s = now_s - self._last_success_s
        return self._failures_in_a_row > 0 and silent_s > self._workload.request_timeout_s
