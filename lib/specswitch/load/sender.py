"""What every load has in common: it sends numbered prompts, keeps the records, and knows when to give up."""

from __future__ import annotations

import asyncio
import resource
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from specswitch.config import Requests
from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import Window

TICK_S = 0.01
RETRY_S = 0.1
FAILURES_IN_A_ROW = 10
SPARE_FILES = 64

StoppedBy = Literal["window", "end", "stop", "failures"]
OnRecord = Callable[[RequestRecord], Any]
StopEvent = threading.Event | asyncio.Event


class PromptSource(Protocol):
    """Anything that gives the token ids of prompt number i (`prompts.Prompts` does)."""

    def __getitem__(self, index: int, /) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run of the load left. Times are CLOCK_MONOTONIC seconds.

    `window`: the steady window that was asked for; None when the run ended before it was complete, and for a
    load that changes over time, which has none. `stopped_by`: `window` or `end` (of the shape) when all went
    as planned. `in_flight_max`: the most requests the client ever had in flight. `client_cpu_s`: CPU time of
    the client's thread. `started_s`: time 0 of a shape.
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


class Sender:
    """Sends prompt 0, 1, 2, ... to one server. Use as an async context manager, in one event loop.

    `on_record` gets each record as soon as its request is over. `stop` is only read, by `asked_to_stop`
    and `drained`.
    `api_key`: if the server wants one.
    """

    def __init__(
        self,
        url: str,
        prompts: PromptSource,
        asked: Requests,
        on_record: OnRecord | None,
        stop: StopEvent | None,
        api_key: str | None = None,
    ) -> None:
        self._client = GenerateClient(url, asked.request_timeout_s, api_key)
        self._prompts = prompts
        self._asked = asked
        self._on_record = on_record
        self._stop = stop
        self.records: list[RequestRecord] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self.started_s = 0.0
        self._cpu_s = 0.0
        self._next_id = 0
        self._failures_in_a_row = 0
        self._last_success_s = 0.0

    async def __aenter__(self) -> Sender:
        self.started_s = self._last_success_s = time.monotonic()
        self._cpu_s = time.thread_time()
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> None:
        await self._client.__aexit__(*problem)

    async def send(
        self, output_tokens: int, scheduled_s: float | None = None, warmup: bool = False
    ) -> RequestRecord:
        """Send the next prompt and follow its answer; `scheduled_s` is when it was due (default: now)."""
        request = GenerateRequest(
            request_id=self._next_id,
            input_ids=tuple(self._prompts[self._next_id]),
            output_tokens=output_tokens,
            scheduled_s=time.monotonic() if scheduled_s is None else scheduled_s,
            ignore_eos=self._asked.ignore_eos,
            temperature=self._asked.temperature,
            warmup=warmup,
        )
        self._next_id += 1
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            return await self._client.generate(request, self._take)
        finally:
            self.in_flight -= 1

    def asked_to_stop(self) -> bool:
        """Whether somebody set the stop event."""
        return self._stop is not None and self._stop.is_set()

    def hopeless(self, now_s: float, slots: int) -> bool:
        """Whether all of `slots` failed in a row, or nothing has succeeded within the request timeout."""
        if self._failures_in_a_row >= max(FAILURES_IN_A_ROW, slots):
            return True
        silent_s = now_s - self._last_success_s
        return self._failures_in_a_row > 0 and silent_s > self._asked.request_timeout_s

    async def drained(self, running: Iterable[asyncio.Task[Any]]) -> bool:
        """Wait until all `running` are over: true. False, at once, when somebody asks to stop before that.

        Failures do not cut it short: each request that still runs has its own timeout, and nothing new is sent.
        """
        tasks = list(running)
        while not all(task.done() for task in tasks):
            if self.asked_to_stop():
                return False
            await asyncio.sleep(TICK_S)
        return True

    def result(self, stopped_by: StoppedBy, window: Window | None = None) -> LoadResult:
        """What the load left, ended now."""
        return LoadResult(
            records=tuple(self.records),
            window=window,
            in_flight_max=self.in_flight_max,
            client_cpu_s=time.thread_time() - self._cpu_s,
            started_s=self.started_s,
            ended_s=time.monotonic(),
            stopped_by=stopped_by,
        )

    def _take(self, record: RequestRecord) -> None:
        self.records.append(record)
        if record.outcome == "ok":
            self._failures_in_a_row = 0
            self._last_success_s = record.end_s
        elif record.outcome == "failed":
            self._failures_in_a_row += 1
        if self._on_record is not None:
            self._on_record(record)


def check_concurrency(concurrency: int) -> None:
    """Raise ValueError for no request at all, or more connections than the open-file limit allows."""
    if concurrency < 1:
        raise ValueError(f"concurrency={concurrency}: must be at least 1 (0 does not mean unlimited)")
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and concurrency + SPARE_FILES > files:
        raise ValueError(
            f"concurrency={concurrency} needs as many connections, but the open-file limit is {files}: "
            f"raise it with `ulimit -n {concurrency + SPARE_FILES}`"
        )
