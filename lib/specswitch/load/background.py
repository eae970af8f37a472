"""A load in the background whose concurrency can be changed while it runs: for looking on, not for measuring.

Closed loop as in `closed_loop`, but without a window and without an end, and nothing is kept of the requests
but a count. It has a thread and an event loop of its own; every method may be called from any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from dataclasses import dataclass
from typing import Self

from specswitch.config import Workload
from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.load.closed_loop import PromptSource
from specswitch.metrics.records import RequestRecord

TICK_S = 0.05
RETRY_S = 0.5
JOIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Tally:
    """The load so far. `last_error`: of the newest failed request, None while none has failed since a success."""

    wanted: int = 0
    in_flight: int = 0
    finished: int = 0
    failed: int = 0
    last_error: str | None = None


class BackgroundLoad:
    """Holds `concurrency` requests in flight at the server at `url` until `close`. A context manager.

    A lower concurrency takes effect as running requests end, a higher one at once. Requests that fail are
    counted and tried again after half a second.
    """

    def __init__(
        self,
        url: str,
        prompts: PromptSource,
        workload: Workload,
        concurrency: int = 0,
        api_key: str | None = None,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._prompts = prompts
        self._workload = workload
        self._wanted = concurrency
        self._stop = threading.Event()
        self._next_id = 0
        self._in_flight = self._finished = self._failed = 0
        self._last_error: str | None = None
        self._thread = threading.Thread(target=self._work, name="specswitch-background-load", daemon=True)
        self._thread.start()

    @property
    def tally(self) -> Tally:
        """Counts now."""
        return Tally(self._wanted, self._in_flight, self._finished, self._failed, self._last_error)

    def set_concurrency(self, concurrency: int) -> None:
        """Hold this many requests in flight from now on; 0 pauses. Raises ValueError below 0."""
        if concurrency < 0:
            raise ValueError(f"concurrency={concurrency}: give 0 (no load) or more")
        self._wanted = concurrency

    def close(self) -> None:
        """Cut off what runs and end the thread. Safe to call again."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        try:
            asyncio.run(self._hold())
        except Exception as problem:  # there is nobody above this thread to tell
            self._failed += 1
            self._last_error = f"the load ended: {type(problem).__name__}: {problem}"

    async def _hold(self) -> None:
        slots: dict[int, asyncio.Task[None]] = {}
        async with GenerateClient(self._url, self._workload.request_timeout_s, self._api_key) as client:
            while not self._stop.is_set():
                for slot in range(self._wanted):
                    if slot not in slots or slots[slot].done():
                        slots[slot] = asyncio.create_task(self._slot(client, slot))
                await asyncio.sleep(TICK_S)
            for task in slots.values():
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*slots.values(), return_exceptions=True)

    async def _slot(self, client: GenerateClient, slot: int) -> None:
        """Send one request after the other while this slot is wanted; the first one shorter, out of step."""
        whole = self._workload.output_tokens
        tokens = math.ceil(whole * (slot + 1) / max(self._wanted, slot + 1))
        while slot < self._wanted:
            record = await self._send(client, tokens)
            tokens = whole
            if record.outcome == "failed":
                await asyncio.sleep(RETRY_S)

    async def _send(self, client: GenerateClient, tokens: int) -> RequestRecord:
        number, self._next_id = self._next_id, self._next_id + 1
        request = GenerateRequest(
            request_id=number,
            input_ids=tuple(self._prompts[number]),
            output_tokens=tokens,
            scheduled_s=time.monotonic(),
            ignore_eos=self._workload.ignore_eos,
            temperature=self._workload.temperature,
        )
        self._in_flight += 1
        try:
            return await client.generate(request, self._count)
        finally:
            self._in_flight -= 1

    def _count(self, record: RequestRecord) -> None:
        if record.outcome == "ok":
            self._finished += 1
            self._last_error = None
        elif record.outcome == "failed":
            self._failed += 1
            self._last_error = record.error
