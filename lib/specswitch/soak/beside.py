"""Something done again and again beside the load, in a thread of its own, which ends with the load."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

JOIN_S = 60.0


class Beside:
    """Calls `action`, waits `pause_s()` seconds, and so on. A context manager.

    An exception ends it and is kept in `error`; `done` counts the calls that went well.
    """

    def __init__(self, action: Callable[[], Any], pause_s: Callable[[], float]) -> None:
        self.done = 0
        self.error: Exception | None = None
        self._action = action
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="specswitch-soak", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(JOIN_S)

    def _work(self) -> None:
        while not self._stop.wait(self._pause_s()):
            try:
                self._action()
            except Exception as problem:  # told by whoever reads `error`
                self.error = problem
                return
            self.done += 1
