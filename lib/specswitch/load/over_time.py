"""A load that changes over time: slots that follow a shape (closed loop), or requests at due times (open loop).

Time 0 is the start of the load. Nothing is sent after the shape's end; what runs then is drained. A request
of an open loop is scheduled for its due time: a client that comes late sends it all the same, and the record
shows by how much.
"""

from __future__ import annotations

import asyncio
import threading
import time

from specswitch.config import Requests
from specswitch.load.closed_loop import first_tokens
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
from specswitch.load.shapes import ArrivalShape, Constant, SlotShape, Step


async def run_over_time(
    url: str,
    prompts: PromptSource,
    asked: Requests,
    shape: SlotShape | ArrivalShape,
    *,
    repeat: int = 0,
    on_record: OnRecord | None = None,
    stop: StopEvent | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """Load the server at `url` as `shape` says, to its end, and let the last requests finish.

    `prompts[i]` is the prompt of request i in the order of sending. `repeat` moves the seed of random
    arrivals. `on_record`, `stop` and `api_key`: as in `run_closed_loop`. The result has no steady window.

    The run gives up as a closed loop does (`stopped_by` is then `failures`). Raises ValueError for more slots
    than the open-file limit allows, and whatever `on_record` raises.
    """
    sender = Sender(url, prompts, asked, on_record, stop, api_key)
    load: _Slots | _Arrivals
    if isinstance(shape, SlotShape):
        check_concurrency(shape.peak)
        load = _Slots(sender, shape, asked.output_tokens)
    else:
        load = _Arrivals(sender, shape.arrivals(repeat), asked.output_tokens)
    try:
        async with sender, asyncio.TaskGroup() as group:
            stopped_by = await load.drive(group)
            if stopped_by == "end" and not await sender.drained(load.running):
                stopped_by = "stop"
            if stopped_by != "end":
                load.cancel()
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    return sender.result(stopped_by)


def run_over_time_sync(
    url: str,
    prompts: PromptSource,
    asked: Requests,
    shape: SlotShape | ArrivalShape,
    *,
    repeat: int = 0,
    on_record: OnRecord | None = None,
    stop: threading.Event | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """`run_over_time` for code that is not async: works with and without a running event loop.

    `on_record` is called in the load's own thread. An interrupt sets `stop` and comes through.
    """
    halt = stop or threading.Event()
    return run_in_own_loop(
        lambda: run_over_time(
            url, prompts, asked, shape, repeat=repeat, on_record=on_record, stop=halt, api_key=api_key
        ),
        on_interrupt=halt.set,
    )


def warm_up(
    url: str,
    prompts: PromptSource,
    asked: Requests,
    shape: SlotShape | ArrivalShape,
    seconds: float,
    *,
    stop: threading.Event | None = None,
    api_key: str | None = None,
) -> LoadResult:
    """Drive the server for `seconds` before the real load: at the peak, or the mean rate, of `shape`.

    A server's first steps at a batch size are slower than the later ones. Blocks until all is drained.
    """
    warm: SlotShape | ArrivalShape
    if isinstance(shape, SlotShape):
        # Full from the start; the end is where the step would be.
        warm = Step(before=shape.peak, after=0, at_s=seconds, duration_s=seconds + TICK_S)
    else:
        warm = Constant(rate=len(shape.arrivals()) / shape.duration_s, duration_s=seconds)
    return run_over_time_sync(url, prompts, asked, warm, stop=stop, api_key=api_key)


class _Slots:
    """Closed loop whose number of slots follows a shape.

    Slot i is wanted while i < target. A slot that is no longer wanted ends after its running request; one that
    is wanted again starts at once. The first request of a slot is shorter the lower the slot, so that slots
    that start together do not end together.
    """

    def __init__(self, sender: Sender, shape: SlotShape, output_tokens: int) -> None:
        self._sender = sender
        self._shape = shape
        self._output_tokens = output_tokens
        self._running: dict[int, asyncio.Task[None]] = {}
        self._ended = False

    @property
    def running(self) -> list[asyncio.Task[None]]:
        """Every slot that was opened, the ended ones among them."""
        return list(self._running.values())

    async def drive(self, group: asyncio.TaskGroup) -> StoppedBy:
        """Open slots as they are wanted, until the shape ends or something stops it."""
        while True:
            now_s = time.monotonic()
            t_s = now_s - self._sender.started_s
            if t_s >= self._shape.duration_s:
                self._ended = True
                return "end"
            if self._sender.asked_to_stop():
                return "stop"
            if self._sender.hopeless(now_s, self._shape.peak):
                return "failures"
            for slot in range(self._shape.target(t_s)):
                if slot not in self._running or self._running[slot].done():
                    self._running[slot] = group.create_task(self._slot(slot))
            await asyncio.sleep(TICK_S)

    def cancel(self) -> None:
        """Cut off what runs."""
        for task in self.running:
            task.cancel()

    async def _slot(self, slot: int) -> None:
        record = await self._sender.send(first_tokens(self._output_tokens, slot, self._shape.peak))
        while True:
            if record.outcome == "failed":
                await asyncio.sleep(RETRY_S)
            if not self._wanted(slot):
                return
            record = await self._sender.send(self._output_tokens)

    def _wanted(self, slot: int) -> bool:
        t_s = time.monotonic() - self._sender.started_s
        return not self._ended and t_s < self._shape.duration_s and slot < self._shape.target(t_s)


class _Arrivals:
    """Open loop: every request at its due time, however many run."""

    def __init__(self, sender: Sender, due_s: tuple[float, ...], output_tokens: int) -> None:
        self._sender = sender
        self._due_s = due_s
        self._output_tokens = output_tokens
        self._running: set[asyncio.Task[object]] = set()

    @property
    def running(self) -> list[asyncio.Task[object]]:
        """The requests that are under way."""
        return list(self._running)

    async def drive(self, group: asyncio.TaskGroup) -> StoppedBy:
        """Send each request when it is due, until the last one or until something stops it."""
        for due_s in self._due_s:
            at_s = self._sender.started_s + due_s
            while (now_s := time.monotonic()) < at_s:
                if stopped_by := self._why_stop(now_s):
                    return stopped_by
                await asyncio.sleep(min(TICK_S, at_s - now_s))
            if stopped_by := self._why_stop(now_s):
                return stopped_by
            task = group.create_task(self._sender.send(self._output_tokens, scheduled_s=at_s))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            await asyncio.sleep(0)  # it sends now, not when the loop next waits
        return "end"

    def cancel(self) -> None:
        """Cut off what runs."""
        for task in self.running:
            task.cancel()

    def _why_stop(self, now_s: float) -> StoppedBy | None:
        if self._sender.asked_to_stop():
            return "stop"
        return "failures" if self._sender.hopeless(now_s, self._sender.in_flight_max) else None
