"""The rule as controls: threshold, hysteresis, dwell, sync; they give a `Rule` and can show a server's.

Hysteresis is a band below the threshold, so that no position of the controls is an impossible rule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as w

from specswitch.config import Rule
from specswitch.serving.control import SYNC_RULES

LABELS = {"description_width": "86px"}
WIDE = w.Layout(width="420px")
NARROW = w.Layout(width="210px")


class RuleControls:
    """The controls and their rule. `on_change` is called when a user moves one, not when `show` does."""

    def __init__(self, rule: Rule, largest: int, on_change: Callable[[], Any]) -> None:
        self._lazy_window = rule.lazy_window
        self._on_change = on_change
        self._showing = threading.local()  # observers run in the thread that sets a value
        slider: dict[str, Any] = {"max": largest, "continuous_update": False, "style": LABELS, "layout": WIDE}
        self.always = w.Checkbox(description="always speculate", indent=False, layout=NARROW)
        self.threshold = w.IntSlider(
            description="threshold",
            tooltip="Speculate while at most this many requests run; 0: never",
            **slider,
        )
        self.band = w.IntSlider(
            description="hysteresis",
            tooltip="Once off, on again only this far below the threshold; 0: at the threshold",
            **slider,
        )
        self.dwell = w.BoundedIntText(
            1, min=1, max=100_000, description="dwell (steps)", style=LABELS, layout=NARROW
        )
        self.sync = w.Dropdown(options=SYNC_RULES, description="draft sync", style=LABELS, layout=NARROW)
        self._all = (self.always, self.threshold, self.band, self.dwell, self.sync)
        self.box = w.VBox(
            [
                w.HBox([self.threshold, self.always]),
                w.HBox([self.band, self.dwell, self.sync]),
            ]
        )
        self.show(rule)
        for control in self._all:
            control.observe(self._moved, "value")

    @property
    def rule(self) -> Rule:
        """The rule that the controls say. A band of 0 is no hysteresis."""
        threshold = None if self.always.value else self.threshold.value
        enable = max(0, threshold - self.band.value) if threshold and self.band.value else None
        return Rule(
            threshold=threshold,
            enable_threshold=enable,
            dwell=self.dwell.value,
            sync=self.sync.value,
            lazy_window=self._lazy_window,
        )

    def show(self, rule: Rule) -> None:
        """Move the controls to this rule without `on_change`; sliders grow where they are too short."""
        self._showing.now = True
        try:
            self.always.value = rule.threshold is None
            if rule.threshold is not None:
                for slider in (self.threshold, self.band):
                    slider.max = max(slider.max, rule.threshold)
                self.threshold.value = rule.threshold
                enable = rule.threshold if rule.enable_threshold is None else rule.enable_threshold
                self.band.value = rule.threshold - enable
            self.dwell.value = rule.dwell
            if rule.sync is not None:
                self.sync.value = rule.sync
        finally:
            self._showing.now = False

    def set_enabled(self, enabled: bool) -> None:
        """Whether they can be moved."""
        for control in self._all:
            control.disabled = not enabled

    def _moved(self, _: object) -> None:
        if not getattr(self._showing, "now", False):
            self._on_change()
