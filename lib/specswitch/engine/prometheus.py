"""Prometheus metrics of the switch, beside SGLang's own on /metrics, when the server runs with --enable-metrics.

They are brought up to date from the totals at most every `PERIOD_S` and when the server falls idle, so a decode
step pays for one comparison. The engine sets PROMETHEUS_MULTIPROC_DIR, hence the late import of the client.
"""

from __future__ import annotations

import math
from typing import Any

from specswitch.engine.counters import Totals
from specswitch.engine.policy import Mode, Rule

PERIOD_S = 0.5


class Exporter:
    """The metrics of one scheduler process.

    Args:
        labels: label names and values, those of the engine's own scheduler metrics.
    """

    def __init__(self, labels: dict[str, Any]) -> None:
        from prometheus_client import Counter, Gauge

        names = list(labels)

        def gauge(name: str, text: str) -> Any:
            return Gauge(name, text, names, multiprocess_mode="mostrecent").labels(**labels)

        def counters(name: str, text: str, label: str, *values: str) -> list[Any]:
            metric = Counter(name, text, [*names, label])
            return [metric.labels(**labels, **{label: value}) for value in values]

        self.mode = gauge("specswitch_mode", "Shape of the newest decode step: 1 speculative, 0 plain.")
        self.batch = gauge("specswitch_running_batch", "Requests in the newest decode step, 0 when idle.")
        self.threshold = gauge(
            "specswitch_threshold",
            "Largest batch that speculates; +Inf = always, NaN = a batch table or no speculation at all.",
        )
        self.counters = {
            **dict(
                zip(
                    ("plain_steps", "speculative_steps"),
                    counters("specswitch_steps", "Decode steps.", "mode", "plain", "speculative"),
                    strict=True,
                )
            ),
            **dict(
                zip(
                    ("proposed", "accepted"),
                    counters("specswitch_draft_tokens", "Draft tokens.", "kind", "proposed", "accepted"),
                    strict=True,
                )
            ),
            "synced_tokens": Counter(
                "specswitch_synced_tokens", "Plain-step tokens whose draft KV was caught up.", names
            ).labels(**labels),
            "switches": Counter("specswitch_switches", "Changes of mode.", names).labels(**labels),
        }
        self._exported = dict.fromkeys(self.counters, 0)
        self._next_s = 0.0

    def update(
        self, now: float, totals: Totals, batch: int, mode: Mode, switches: int, rule: Rule | None
    ) -> None:
        """Bring every metric up to date.

        Args:
            now: monotonic seconds. totals: sums since start. batch, mode: of the newest decode step.
            switches: changes of mode since start. rule: None on a server that cannot speculate.
        """
        self._next_s = now + PERIOD_S
        self.mode.set(int(mode is Mode.SPECULATIVE))
        self.batch.set(batch)
        self.threshold.set(threshold_value(rule))
        for name, counter in self.counters.items():
            value = switches if name == "switches" else getattr(totals, name)
            counter.inc(value - self._exported[name])
            self._exported[name] = value

    def due(self, now: float) -> bool:
        """Whether `PERIOD_S` has passed since the last update."""
        return now >= self._next_s


def threshold_value(rule: Rule | None) -> float:
    """A rule's threshold as a Prometheus number, which has no other word for "none" than NaN."""
    if rule is None or rule.ranges is not None:
        return math.nan
    return math.inf if rule.threshold is None else rule.threshold
