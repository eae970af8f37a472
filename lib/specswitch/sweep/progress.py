"""What a sweep tells while it runs: a bar for somebody who looks on, one line per point for a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TextIO


@dataclass(frozen=True, slots=True)
class Progress:
    """`done` of `total` points are stored. kind: `server` is starting, `point` begins, `done` with its row.

    `left_s`: estimated seconds until all are; None when nobody estimates.
    """

    kind: Literal["server", "point", "done"]
    done: int
    total: int
    name: str
    row: Mapping[str, Any] | None = None
    left_s: float | None = None

    @property
    def left(self) -> str:
        """`about 6 min left`; empty at the end, and when nobody estimates."""
        return f"about {in_words(self.left_s)} left" if self.left_s and self.done < self.total else ""

    def line(self) -> str:
        """One line of text, e.g. `[ 3/72] always-v2-c4-r0-0123456789ab: 1,120 tokens/s, about 6 min left`."""
        return f"{self._what()}, {self.left}" if self.left else self._what()

    def _what(self) -> str:
        head = f"[{self.done:>{len(str(self.total))}}/{self.total}] {self.name}"
        if self.kind == "server":
            return f"{head}: starting this server"
        if self.row is None:
            return head
        speed = self.row.get("output_tok_s_load", self.row["output_tok_s"])
        return f"{head}: {'no steady window' if speed is None else f'{speed:,.0f} tokens/s'}"


def in_words(seconds: float) -> str:
    """A rough time: `40 s`, `6 min`, `1.5 h`."""
    if seconds < 57.5:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


OnProgress = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Tell nobody."""


@contextmanager
def lines(stream: TextIO) -> Iterator[OnProgress]:
    """One line per server start and finished point, for logs."""

    def tell(progress: Progress) -> None:
        if progress.kind != "point":
            stream.write(f"{progress.line()}\n")
            stream.flush()

    yield tell


@contextmanager
def bar(stream: TextIO | None = None) -> Iterator[OnProgress]:
    """A progress bar: on `stream`, else a widget in JupyterLab or text on standard error."""
    if stream is None:
        from tqdm.auto import tqdm
    else:
        from tqdm import tqdm

    # Its own estimate would take server starts for slow points.
    form = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
    with tqdm(unit="point", file=stream, bar_format=form) as shown:

        def tell(progress: Progress) -> None:
            shown.total = progress.total
            shown.n = progress.done
            verb = {"server": "starting", "point": "measuring", "done": "finished"}[progress.kind]
            shown.set_postfix_str(progress.left, refresh=False)
            shown.set_description(f"{verb} {progress.name}")

        yield tell
