"""Run async code to its end from anywhere: a script, a notebook cell with a running loop, a thread.

`asyncio.run` refuses inside a running loop, and a notebook always has one. So the work gets a thread with a
loop of its own; the caller waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_own_loop(
    start: Callable[[], Coroutine[Any, Any, T]], on_interrupt: Callable[[], Any] | None = None
) -> T:
    """Result of `await start()`, run in a new thread with a new event loop. Its exceptions come through.

    On KeyboardInterrupt `on_interrupt` is called (to ask the work to stop; without it the work is cancelled), the
    work is waited for, and the interrupt goes on.
    """
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def work() -> T:
        begun.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await start()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="specswitch-load") as pool:
        future = pool.submit(lambda: asyncio.run(work()))
        try:
            return future.result()
        except KeyboardInterrupt:
            if on_interrupt is not None:
                on_interrupt()
            else:
                for loop, task in begun:
                    _cancel(loop, task)
            raise


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself meanwhile
            loop.call_soon_threadsafe(task.cancel)
