"""Async work from any context."""

from __future__ import annotations

import asyncio

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


def test_an_interrupt_asks_the_work_to_stop_waits_for_it_and_goes_on():
    """C12: interrupting the cell ends the load, it does not leave it running behind."""
    import signal
    import threading
    import time

    halt, ended = threading.Event(), []
    # A job in the background begins without a handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    async def until_halted():
        threading.Timer(
            0.2, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        ).start()
        while not halt.is_set():
            await asyncio.sleep(0.01)
        ended.append(time.monotonic())

    try:
        with pytest.raises(KeyboardInterrupt):
            run_in_own_loop(until_halted, on_interrupt=halt.set)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended
