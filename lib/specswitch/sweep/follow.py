"""Progress of a run that another process makes, seen in its folder: a bar on a terminal, else one line per point."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from specswitch.results.layout import POINT, POINTS, SERVERS
from specswitch.sweep.eta import Ahead, telling_time_left
from specswitch.sweep.progress import OnProgress, Progress, bar, lines

POLL_S = 0.5


@contextmanager
def follow(folder: Path, total: int, stream: TextIO, left: Ahead) -> Iterator[None]:
    """While the body runs, tell `stream` of every server that starts and every point that is finished.

    `left`: what is to do, for the time left in each line.
    """
    ended = threading.Event()
    watcher = _Watcher(folder, total)

    def watch() -> None:
        # Nobody may be reading any more (a closed pipe); the run goes on all the same.
        with suppress(OSError), bar(stream) if stream.isatty() else lines(stream) as show:
            tell = telling_time_left(show, left)
            while not ended.wait(POLL_S):
                watcher.look(tell)
            watcher.look(tell)

    thread = threading.Thread(target=watch, name="specswitch-follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Watcher:
    """What is new in a run folder since the last look. What was there at the start is not told."""

    def __init__(self, folder: Path, total: int) -> None:
        self._folder = folder
        self._total = total
        self._points = self._finished()
        self._servers = self._logs()

    def look(self, tell: OnProgress) -> None:
        """Tell of every new point and server. A server takes longer than a look, so both at once mean: in turn."""
        for point in sorted(self._finished() - self._points, key=_age):
            self._points.add(point)
            tell(Progress("done", len(self._points), self._total, point.parent.name, _row(point)))
        for log in sorted(self._logs() - self._servers):
            self._servers.add(log)
            tell(Progress("server", len(self._points), self._total, log.stem))

    def _finished(self) -> set[Path]:
        found = (self._folder / POINTS).glob(f"*/{POINT}")
        return {path for path in found if ".damaged-" not in path.parent.name}

    def _logs(self) -> set[Path]:
        return set((self._folder / SERVERS).glob("*.log"))


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _row(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))
