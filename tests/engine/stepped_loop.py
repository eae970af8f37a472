"""An endless loop that another thread advances one iteration at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class SteppedLoop:
    """Runs an endless loop in a thread that stands still whenever it reaches `wait_for_turn`."""

    def __init__(self, loop: Callable[[], None]) -> None:
        self._loop = loop
        self._go = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._errand: Callable[[], Any] | None = None
        self._answer: Any = None
        self._thread: threading.Thread | None = None

    def advance(self) -> None:
        """Let the loop run until it waits again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            self._arrived.acquire()
        self._check()
        self._go.release()
        self._arrived.acquire()
        self._check()

    def between(self, errand: Callable[[], Any]) -> Any:
        """Call `errand` in the loop's thread between two iterations; returns what it returned."""
        if self._thread is None:
            return errand()
        self._errand = errand
        self._go.release()
        self._arrived.acquire()
        self._check()
        return self._answer

    def wait_for_turn(self) -> None:
        """Called from inside the loop, once per iteration."""
        while True:
            self._arrived.release()
            self._go.acquire()
            if self._errand is None:
                return
            errand, self._errand = self._errand, None
            self._answer = errand()

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            self._error = error
            self._arrived.release()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
