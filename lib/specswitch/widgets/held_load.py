"""The background load of a live session: made when first wanted, and what goes wrong with it told once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from specswitch.load.background import BackgroundLoad, Tally
from specswitch.load.prompts import load_prompts
from specswitch.widgets.parameters import PanelState, as_point
from specswitch.widgets.sources import Source


class Load(Protocol):
    """What is used of `BackgroundLoad`."""

    @property
    def tally(self) -> Tally:
        """Counts now."""
        ...

    def set_concurrency(self, concurrency: int) -> None:
        """Hold this many requests in flight."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def load_for(source: Source) -> Load:
    """A load for this server, with prompts of its model. Raises ValueError, FileNotFoundError."""
    point = as_point(source.base, PanelState(path=source.path))
    workload = point.workload
    prompts = load_prompts(workload.dataset, Path(point.server.model), workload.prompt_tokens, workload.seed)
    return BackgroundLoad(source.url, prompts, workload, api_key=source.api_key)


class HeldLoad:
    """At most one load on a source. `tell` gets each new problem, as a sentence."""

    def __init__(self, source: Source, make: Callable[[Source], Load], tell: Callable[[str], None]) -> None:
        self._source = source
        self._make = make
        self._tell = tell
        self._load: Load | None = None
        self._wanted = 0
        self._told: str | None = None

    def want(self, concurrency: int) -> None:
        """Hold this many requests in flight from now on; the first time the load is made."""
        if concurrency == self._wanted:
            return
        self._wanted = concurrency
        if self._load is None:
            try:
                self._load = self._make(self._source)
            except (ValueError, OSError) as problem:
                self._tell(f"No load: {problem}")
                return
        self._load.set_concurrency(concurrency)

    @property
    def tally(self) -> Tally:
        """Counts now; a new error among them is told."""
        if self._load is None:
            return Tally()
        tally = self._load.tally
        if tally.last_error != self._told:
            self._told = tally.last_error
            if tally.last_error is not None:
                self._tell(f"A request of the load failed: {tally.last_error}")
        return tally

    def close(self) -> None:
        """End the load, if there is one."""
        if self._load is not None:
            self._load.close()
