"""The measured half of a stored point whose load changed over time.

It has no steady window, so every windowed number is None, and so is `steady`: nobody asked for one. What is
known stands beside them under names that say so: `*_whole_run` counts every event of the run, ramp and drain
included, and `output_tok_s_load` the tokens that arrived while the load was driven.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from specswitch.metrics import acceptance, latency, recovery, throughput
from specswitch.metrics.mode_changes import ModeChange, mode_changes
from specswitch.metrics.point import point_metrics
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.metrics.window import Window

LATENCIES = {
    "ttft_ms": latency.ttft_ms,
    "itl_ms": latency.itl_ms,
    "tpot_ms": latency.tpot_ms,
    "e2e_ms": latency.e2e_ms,
    "queue_delay_ms": latency.queue_delay_ms,
}


def crossing_metrics(
    records: Sequence[RequestRecord], steps: Sequence[StepRecord], driven: Window
) -> dict[str, Any]:
    """All metrics of one point of a crossing run.

    `driven`: from the start of the load to the end of its shape (seconds, CLOCK_MONOTONIC). `switch_cost_ms`
    and `switch_cost_steps` are medians over the changes to plain and to speculative steps.
    """
    windowless = point_metrics(records, steps, None)
    ratios = {
        "accept_length_whole_run": acceptance.accept_length(steps),
        "accept_rate_whole_run": acceptance.accept_rate(steps),
        "speculated_share_tokens_whole_run": acceptance.speculated_tokens(steps),
        "accept_length_after_resume": recovery.soon_after_resume(steps),
    }
    changes = mode_changes(steps)
    return {
        **windowless,
        "steady": None,
        "measured_requests": None,
        "output_tok_s_load": throughput.output_throughput(records, driven),
        **{f"{name}_whole_run": latency.summary(values(records)) for name, values in LATENCIES.items()},
        **{name: ratio.value for name, ratio in ratios.items()},
        "ratios": {**windowless["ratios"], **{name: ratio.as_dict() for name, ratio in ratios.items()}},
        "switches_whole_run": acceptance.switches(steps),
        "max_running_whole_run": acceptance.max_running(steps),
        "mean_running_whole_run": acceptance.mean_running(steps),
        "resumes": len(recovery.resumed_phases(steps)) if steps else None,
        "switch_cost_ms": _by_mode(changes, "cost_ms"),
        "switch_cost_steps": _by_mode(changes, "cost_steps"),
    }


def _by_mode(changes: Sequence[ModeChange], name: str) -> dict[str, float | None]:
    """Median of `name` over the changes to each mode; None without any."""
    found: dict[str, float | None] = {}
    for to in ("plain", "speculative"):
        values = [v for c in changes if c.to == to and (v := getattr(c, name)) is not None]
        found[f"to_{to}"] = median(values) if values else None
    return found
