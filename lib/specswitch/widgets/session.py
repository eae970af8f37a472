"""One server under one's hands: start, watch, change, stop. A state machine with a thread, without widgets.

    stopped -> starting -> running -> stopping -> stopped
                       \\-> failed <-/                       (failed starts again like stopped)

Everything slow (launch, HTTP, teardown) happens in the session's thread; every method returns at once. What
happens is told to a listener, from that thread or from the caller's.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Literal, Protocol

from specswitch.config import Rule
from specswitch.load.background import Tally
from specswitch.serving.errors import (
    RuleRefusedError,
    ServerUnreachableError,
    ServingError,
)
from specswitch.widgets.held_load import HeldLoad, Load, load_for
from specswitch.widgets.parameters import rule_changes
from specswitch.widgets.samples import Reading, Sample, between, gap
from specswitch.widgets.sources import CancelledError, Source

Phase = Literal["stopped", "starting", "running", "stopping", "failed"]
POLL_S = 0.5
GIVE_UP_S = 30.0  # a server that says nothing for so long is gone


class Listener(Protocol):
    """Who wants to know. Called from other threads than the main one; must not block and must not raise."""

    def phase(self, phase: Phase, message: str) -> None:
        """The session has entered this phase; the message is for the user, with the cure where it failed."""
        ...

    def looked(self, sample: Sample, state: dict[str, Any] | None, tally: Tally) -> None:
        """One look at the server; `state` None when it did not answer."""
        ...

    def refused(self, reason: str, state: dict[str, Any]) -> None:
        """The server did not take the rule; `state` says what it has."""
        ...

    def problem(self, text: str) -> None:
        """Something went wrong that does not end the session."""
        ...


class Session:
    """One server at a time. `poll_s`: seconds between two looks at it."""

    def __init__(
        self, listener: Listener, poll_s: float = POLL_S, make_load: Callable[[Source], Load] = load_for
    ) -> None:
        self._listener = listener
        self._poll_s = poll_s
        self._make_load = make_load
        self._lock = threading.Lock()
        self._phase: Phase = "stopped"
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._source: Source | None = None
        self._thread: threading.Thread | None = None
        self._rule: Rule | None = None
        self._concurrency = 0

    @property
    def phase(self) -> Phase:
        """Where the session is now."""
        return self._phase

    @property
    def source(self) -> Source | None:
        """The server that runs now, or that ran last."""
        return self._source

    def start(self, source: Source, rule: Rule | None, concurrency: int) -> bool:
        """Open `source`, bring it to `rule` (None: leave its own), load it. False if a session is on already."""
        with self._lock:
            if self._phase not in ("stopped", "failed"):
                return False
            self._phase = "starting"
            self._source, self._rule, self._concurrency = source, rule, concurrency
            self._stop, self._wake = threading.Event(), threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(source, self._stop), name="specswitch-live", daemon=True
            )
        self._listener.phase("starting", source.words)
        self._thread.start()
        return True

    def stop(self) -> bool:
        """End the session, whatever it is doing. False if there is nothing to end."""
        with self._lock:
            if self._phase not in ("starting", "running") or self._source is None:
                return False
            self._phase = "stopping"
            self._stop.set()
            self._wake.set()
            cancel = threading.Thread(
                target=self._cancel, args=(self._source,), name="specswitch-live-stop", daemon=True
            )
        self._listener.phase("stopping", "Stopping")
        cancel.start()
        return True

    def change_rule(self, rule: Rule) -> None:
        """Bring the running server to this rule, soon; of several wishes the last one counts."""
        self._rule = rule
        self._wake.set()

    def change_concurrency(self, concurrency: int) -> None:
        """Hold this many requests in flight, soon."""
        self._concurrency = concurrency
        self._wake.set()

    @property
    def wishes(self) -> bool:
        """Whether a change of the rule still waits to be made."""
        return self._rule is not None

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the session; False if it has not come in time."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def _cancel(self, source: Source) -> None:
        try:
            source.cancel()
        except Exception as problem:
            self._listener.problem(in_words(problem))

    def _run(self, source: Source, stop: threading.Event) -> None:
        problem: Exception | None = None
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(source.close)
                source.open()
                load = HeldLoad(source, self._make_load, self._listener.problem)
                undo.callback(load.close)
                if self._entered("running", only_from="starting"):
                    self._listener.phase("running", f"Running: {source.path} at {source.url}")
                    self._watch(source, load, stop)
        except Exception as error:
            problem = error
        if stop.is_set() and problem is not None and not isinstance(problem, ServingError | CancelledError):
            self._listener.problem(in_words(problem))
        if problem is None or stop.is_set():
            self._entered("stopped")
            self._listener.phase("stopped", "Stopped")
        else:
            self._entered("failed")
            self._listener.phase("failed", in_words(problem))

    def _entered(self, phase: Phase, only_from: Phase | None = None) -> bool:
        with self._lock:
            if only_from is not None and self._phase != only_from:
                return False
            self._phase = phase
            return True

    def _watch(self, source: Source, load: HeldLoad, stop: threading.Event) -> None:
        """Look every `poll_s` seconds; wishes are carried out at once, in between."""
        before: Reading | None = None
        answered_s = look_s = time.monotonic()
        while not stop.is_set():
            self._wake.clear()
            load.want(self._concurrency)
            reading: Reading | None = None
            try:
                self._apply(source)
                if (left_s := look_s - time.monotonic()) > 0:
                    self._wake.wait(left_s)
                    continue
                look_s = time.monotonic() + self._poll_s
                state = source.state()
                reading = Reading(time.monotonic(), state)
            except ServerUnreachableError as silence:
                if stop.is_set():
                    return  # it was taken down under our hands
                source.raise_if_exited()
                if time.monotonic() - answered_s > GIVE_UP_S:
                    raise
                self._listener.problem(f"The server does not answer: {silence}")
                look_s = time.monotonic()
                stop.wait(self._poll_s)
            if reading is None:
                self._listener.looked(gap(time.monotonic()), None, load.tally)
            else:
                answered_s = reading.t_s
                self._listener.looked(between(before, reading), state, load.tally)
                before = reading

    def _apply(self, source: Source) -> None:
        """Bring the server to the rule that was wished for last, if any."""
        rule = self._rule
        if rule is None:
            return
        try:
            source.set_rule(**rule_changes(rule))
        except RuleRefusedError as refusal:
            state = source.state()
            why = state.get("last_refusal")
            self._done(rule)
            self._listener.refused(f"{refusal} ({why})" if why else str(refusal), state)
        else:
            self._done(rule)

    def _done(self, rule: Rule) -> None:
        if self._rule is rule:  # else another wish has come meanwhile
            self._rule = None


def in_words(problem: Exception) -> str:
    """What to tell the user: our own errors name value and cure; any other is a bug and shows where."""
    if isinstance(problem, ServingError | OSError | ValueError):
        return str(problem)
    where = "".join(traceback.format_exception(problem)[-3:])
    return f"An error that should not happen, please report it: {where}"
