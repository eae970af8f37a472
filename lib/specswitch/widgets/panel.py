"""The live panel: a session, its controls, its figure, and its state as the parameters of a batch run.

Handlers only pass wishes on to the session; whatever takes time happens in its thread. Nothing a handler or
the session's thread raises is lost: it becomes a message on the panel.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import ipywidgets as w

from specswitch.config import Rule
from specswitch.load.background import Tally
from specswitch.sweep.parameters import ParameterError, SweepParameters
from specswitch.widgets import words
from specswitch.widgets.batch import as_yaml, command_line
from specswitch.widgets.controls import LABELS, NARROW, WIDE, RuleControls
from specswitch.widgets.figure import draw, live_figure
from specswitch.widgets.messages import Messages, MessagesHandler
from specswitch.widgets.parameters import (
    KINDS,
    LiveParameters,
    PanelState,
    as_sweep,
    rule_of,
    server_to_start,
)
from specswitch.widgets.samples import History, Sample
from specswitch.widgets.session import POLL_S, Phase, Session, in_words
from specswitch.widgets.sources import Attached, Launched, Source

FULL = w.Layout(width="98%")
SWITCHED = ("v1", "v2")  # the paths with a rule


def told(handler: Callable[..., None]) -> Callable[..., None]:
    """A panel's method whose exceptions become messages on the panel."""

    @functools.wraps(handler)
    def guarded(self: Panel, *args: Any) -> None:
        try:
            handler(self, *args)
        except Exception as problem:
            self.messages.add(in_words(problem))

    return guarded


def _kind(state: dict[str, Any]) -> tuple[Any, Any]:
    """What of a server's state, the rule apart, decides which sweep measures it."""
    return state.get("dynamic"), state.get("ranges")


class Panel:
    """The panel; `box` is what a notebook shows. It listens to its `session`."""

    def __init__(self, asked: LiveParameters, poll_s: float = POLL_S) -> None:
        self._asked = asked
        self._history = History()
        self._start_s = time.monotonic()
        self._shown: object = None  # the server's rule as last seen
        self._server: dict[str, Any] = {}  # its state as last seen
        self.messages = Messages()
        self.session = Session(self, poll_s)
        largest = asked.base.max_running_requests
        state = asked.state()
        self.path = w.Dropdown(
            options=KINDS, value=state.path, description="path", style=LABELS, layout=NARROW
        )
        self.url = w.Text(
            asked.url or "",
            description="or attach to",
            placeholder="URL of a running server",
            style=LABELS,
            layout=WIDE,
        )
        self.start = w.Button(button_style="primary", layout=w.Layout(width="90px"))
        self.stop = w.Button(description="Stop", button_style="warning", layout=w.Layout(width="90px"))
        self.status, self.now, self.load = w.HTML(), w.HTML(), w.HTML()
        self.rule = RuleControls(state.rule, largest, self._rule_moved)
        self.concurrency = w.IntSlider(
            min(state.concurrency, largest),
            max=largest,
            description="load",
            tooltip="Requests that are held in flight; 0: none",
            continuous_update=False,
            style=LABELS,
            layout=WIDE,
        )
        self.figure = live_figure()
        self.line = w.Textarea(rows=2, layout=FULL)
        self.yaml = w.Textarea(rows=6, layout=FULL)
        self.box = self._laid_out()
        self._log = MessagesHandler(self.messages)
        logging.getLogger("specswitch").addHandler(self._log)
        self.start.on_click(self._start_clicked)
        self.stop.on_click(self._stop_clicked)
        self.concurrency.observe(self._concurrency_moved, "value")
        for control in (self.path, self.url):
            control.observe(self._refresh, "value")
        self._set_status("Stopped")
        self._refresh()

    @property
    def state(self) -> PanelState:
        """What the controls say; on a stock server, which has no rule, always."""
        rule = self.rule.rule if self._server.get("dynamic", True) else Rule()
        return PanelState(path=self._path(), rule=rule, concurrency=self.concurrency.value)

    def sweep(self) -> SweepParameters:
        """The batch run that measures this state beside the static arms.

        Raises:
            ParameterError: no load is set, or the server follows a batch table.
        """
        if (ranges := self._server.get("ranges")) is not None:
            raise ParameterError(f"batch table {ranges}: a sweep has no arm for one, set a threshold")
        return as_sweep(self._base(), self.state)

    def close(self, timeout_s: float | None = None) -> bool:
        """Stop, and wait until nothing is left; False if that has not come in time."""
        self.session.stop()
        logging.getLogger("specswitch").removeHandler(self._log)
        return self.session.join(timeout_s)

    @told
    def _start_clicked(self, _: object = None) -> None:
        source: Source
        if self._attaches:
            source, rule = Attached(self.url.value.strip(), self._asked.base), None
        else:
            state = PanelState(path=self.path.value, rule=self.rule.rule)
            config = server_to_start(self._asked.base, state)
            source = Launched(config, self._asked.base, self.path.value)
            rule = state.rule if self.path.value in SWITCHED else None
        if not self.session.start(source, rule, self.concurrency.value):
            self.messages.add("A server is on already: press Stop first", "warning")

    @told
    def _stop_clicked(self, _: object = None) -> None:
        self.session.stop()

    @told
    def _rule_moved(self) -> None:
        launching = self.session.phase == "starting" and not self._attaches and self.path.value in SWITCHED
        if launching or self.session.phase == "running":
            self.session.change_rule(self.rule.rule)
        self._refresh()

    @told
    def _concurrency_moved(self, _: object) -> None:
        self.session.change_concurrency(self.concurrency.value)
        self._refresh()

    @told
    def phase(self, phase: Phase, message: str) -> None:
        """The session has entered a phase."""
        if phase == "starting":
            self._history.clear()
            self._start_s, self._shown = time.monotonic(), None
            draw(self.figure, self._history, self._start_s)
        if phase == "failed":
            self.messages.add(f"{message}\nPress {self.start.description} to try again.")
            message = "Failed, see the messages below"
        if phase in ("stopped", "failed"):
            self._server = {}
            self.now.value = self.load.value = ""
            self.rule.set_enabled(True)
        self._set_status(message)
        self._refresh()

    @told
    def looked(self, sample: Sample, state: dict[str, Any] | None, tally: Tally) -> None:
        """A look at the server: draw it, and let the controls follow a rule that was changed elsewhere."""
        self._history.add(sample)
        draw(self.figure, self._history, self._start_s)
        if state is not None:
            self.now.value = words.now(sample, state)
            self._follow(state)
        self.load.value = words.load(tally)

    @told
    def refused(self, reason: str, state: dict[str, Any]) -> None:
        """The server keeps its rule: say why, and show the rule that it has."""
        self.messages.add(reason)
        self._shown = None
        self._follow(state)

    @told
    def problem(self, text: str) -> None:
        """Something that does not end the session."""
        self.messages.add(text, "warning")

    @property
    def _attaches(self) -> bool:
        return bool(self.url.value.strip())

    def _follow(self, state: dict[str, Any]) -> None:
        rule = rule_of(state)
        kind_before, self._server = _kind(self._server), state
        self.rule.set_enabled(bool(state.get("dynamic")))
        if rule is not None and rule != self._shown and not self.session.wishes:
            self._shown = rule
            self.rule.show(rule)
            self._refresh()
        elif _kind(state) != kind_before:
            self._refresh()

    def _path(self) -> Any:
        source = self.session.source
        on = self.session.phase == "running" and source is not None
        return source.path if on and source is not None else self.path.value

    def _base(self) -> SweepParameters:
        source = self.session.source
        return source.base if self.session.phase == "running" and source is not None else self._asked.base

    def _refresh(self, _: object = None) -> None:
        """Buttons and the texts for a batch run, as the session and the controls now are."""
        phase = self.session.phase
        self.start.description = "Attach" if self._attaches else "Start"
        self.start.disabled = phase not in ("stopped", "failed")
        self.stop.disabled = phase not in ("starting", "running")
        self.path.disabled = self._attaches or self.start.disabled
        self.url.disabled = self.start.disabled
        try:
            asked = self.sweep()
            self.line.value, self.yaml.value = command_line(asked), as_yaml(asked)
        except ParameterError as problem:
            self.line.value, self.yaml.value = f"# {problem}", ""

    def _set_status(self, message: str) -> None:
        self.status.value = words.span("status", message)

    def _laid_out(self) -> w.VBox:
        batch = w.Accordion(
            [w.VBox([w.Label("In a shell:"), self.line, w.Label("As YAML, for -y:"), self.yaml])]
        )
        batch.set_title(0, "This state as a batch run")
        batch.selected_index = 0
        return w.VBox(
            [
                w.HBox([self.path, self.url, self.start, self.stop]),
                self.status,
                self.rule.box,
                w.HBox([self.concurrency, self.load]),
                self.now,
                self.messages.box,
                self.figure,
                batch,
            ]
        )
