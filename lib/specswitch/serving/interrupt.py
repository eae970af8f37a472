"""A signal that would end this process at once ends it in order: it becomes a KeyboardInterrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM, SIGINT and SIGHUP raise KeyboardInterrupt(name) in the body, so that everything is cleaned up.

    Outside of the main thread, where there is no handler to set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before: dict[signal.Signals, Any] = {kind: signal.signal(kind, interrupt) for kind in SIGNALS}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def how_interrupted(stopped: BaseException) -> str:
    """In words, what interrupted: `interrupted by SIGTERM`, or `interrupted`.

    The signal's name is looked for in the exception's text: what was running may have added to it (a codec does).
    """
    name = next((kind.name for kind in SIGNALS if any(kind.name in str(arg) for arg in stopped.args)), None)
    return f"interrupted by {name}" if name else "interrupted"
