"""Async work from any context."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from specswitch.load.own_loop import run_in_own_loop


async def answer():
    await asyncio.sleep(0)
    return 42


async def trouble():
    raise LookupError("gone")


def test_without_a_loop():
    assert run_in_own_loop(answer) == 42


async def test_inside_a_loop_also_after_awaiting_there():
    """C12: an awaiting cell first, then the blocking call in the same kernel."""
    assert await answer() == 42
    assert run_in_own_loop(answer) == 42


def test_exceptions_come_through():
    with pytest.raises(LookupError, match="gone"):
        run_in_own_loop(trouble)


@pytest.fixture
def interrupt_soon() -> Iterator[Callable[[], None]]:
    """Call it to have the main thread interrupted 0.2 s later."""
    # A job in the background begins without a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    yield lambda: threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_asks_the_work_to_stop_waits_for_it_and_goes_on(interrupt_soon):
    """C12: interrupting the cell ends the load, it does not leave it running behind."""
    halt, ended = threading.Event(), []

    async def until_halted():
        interrupt_soon()
        while not halt.is_set():
            await asyncio.sleep(0.01)
        ended.append(time.monotonic())

    with pytest.raises(KeyboardInterrupt):
        run_in_own_loop(until_halted, on_interrupt=halt.set)
    assert ended


def test_an_interrupt_cancels_work_that_cannot_be_asked(interrupt_soon):
    ended = []

    async def long():
        interrupt_soon()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(time.monotonic())

    start_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_in_own_loop(long)
    assert time.monotonic() - start_s < 10
    assert ended
