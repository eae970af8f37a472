"""Drive one server with the requests of a soak: as many at once as the tide wants, some ended early."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import aiohttp

from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.metrics.records import RequestRecord
from specswitch.soak.asks import Ask, Asks
from specswitch.soak.unrest import Tide

TICK_S = 0.005
MOST_FAILURES = 20
FIRST_TOKEN_S = 0.02  # a first guess of the seconds per token

Ended = Literal["requests", "time", "failures"]


@dataclass(frozen=True, slots=True)
class Kept:
    """Output to be compared. `complete`: the request was not ended early, so its length counts, too."""

    ask: Ask
    ids: tuple[int, ...]
    complete: bool


@dataclass(slots=True)
class Tally:
    """The load so far. `hung_up` and `aborted`: ended early as planned; a request may finish before that."""

    sent: int = 0
    finished: int = 0
    hung_up: int = 0
    aborted: int = 0
    failed: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    ended: Ended | None = None
    seconds: float = 0.0

    @property
    def over(self) -> int:
        """Requests that are over, however they ended."""
        return self.finished + self.hung_up + self.aborted + self.failed


class SoakLoad:
    """One load; `tally` may be read from any thread while `run` is under way."""

    def __init__(
        self,
        url: str,
        asks: Asks,
        tide: Tide,
        request_timeout_s: float,
        name: str,
        api_key: str | None = None,
    ) -> None:
        self.tally = Tally()
        self._client = GenerateClient(url, request_timeout_s, api_key)
        self._asks = asks
        self._tide = tide
        self._name = name
        self._running: set[asyncio.Task[None]] = set()
        self._token_s = FIRST_TOKEN_S

    async def run(self, requests: int, seconds: float, on_tick: Callable[[], None] = lambda: None) -> Tally:
        """Send requests 0, 1, ... until `requests` are sent or `seconds` are over; the last ones are drained.

        Gives up after 20 failed requests. `on_tick` is called at every turn of the loop; what it raises ends
        the load and is raised.
        """
        started_s = time.monotonic()
        tally = self.tally
        async with self._client:
            try:
                while (ended := self._ended(requests, time.monotonic() - started_s, seconds)) is None:
                    on_tick()
                    wanted = self._tide.target(time.monotonic() - started_s)
                    while len(self._running) < wanted and tally.sent < requests:
                        self._start(self._asks[tally.sent])
                    await asyncio.sleep(TICK_S)
                while self._running:
                    on_tick()
                    await asyncio.wait(self._running, timeout=1.0)
            finally:
                for task in self._running:
                    task.cancel()
        tally.ended, tally.seconds = ended, time.monotonic() - started_s
        return tally

    def _ended(self, requests: int, passed_s: float, seconds: float) -> Ended | None:
        if self.tally.failed >= MOST_FAILURES:
            return "failures"
        if self.tally.sent >= requests:
            return "requests"
        return "time" if passed_s >= seconds else None

    def _start(self, ask: Ask) -> None:
        self.tally.sent += 1
        task = asyncio.create_task(self._follow(ask))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _follow(self, ask: Ask) -> None:
        """One request to its end, its early end included."""
        request = GenerateRequest(
            request_id=ask.number,
            input_ids=ask.input_ids,
            output_tokens=ask.output_tokens,
            scheduled_s=time.monotonic(),
            ignore_eos=ask.ignore_eos,
            temperature=ask.temperature,
            rid=f"{self._name}-{ask.number:09d}",  # of one width: the engine aborts by prefix
        )
        answering = asyncio.create_task(
            self._client.generate(request, lambda record: self._take(ask, record))
        )
        try:
            if ask.abort is not None:
                await self._end_early(ask, request, answering)
            with contextlib.suppress(asyncio.CancelledError):
                await answering
        finally:
            answering.cancel()

    async def _end_early(
        self, ask: Ask, request: GenerateRequest, answering: asyncio.Task[RequestRecord]
    ) -> None:
        await asyncio.wait({answering}, timeout=ask.abort_at * ask.output_tokens * self._token_s)
        if answering.done():
            return
        if ask.abort == "hang-up":
            answering.cancel()
            return
        try:
            await self._client.abort(request)
        except (aiohttp.ClientError, OSError) as problem:  # of a dead server the answer itself tells, too
            self.tally.errors.append(f"abort of request {ask.number}: {type(problem).__name__}: {problem}")

    def _take(self, ask: Ask, record: RequestRecord) -> None:
        tally, tokens = self.tally, record.completion_tokens or 0
        tally.tokens += tokens
        if record.outcome == "ok":
            tally.finished += 1
            if tokens:
                self._token_s += 0.05 * ((record.end_s - record.sent_s) / tokens - self._token_s)
        elif record.outcome == "cancelled":
            tally.hung_up += 1
        elif ask.abort == "abort" and record.finish_reason == "abort":
            tally.aborted += 1
        else:
            tally.failed += 1
            tally.errors.append(f"request {ask.number}: {record.error}")
            return
        if ask.compared and tokens:
            # The last event of an abort may repeat a token.
            tally.kept.append(Kept(ask, record.output_ids[:tokens], record.outcome == "ok"))
