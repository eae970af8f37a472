"""A point's row: what it is, who measured it, and every number, from the raw records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specswitch.config import Point
from specswitch.load.crossing_plan import AnyPoint
from specswitch.load.prompts import Prompts
from specswitch.metrics.crossing import crossing_metrics
from specswitch.metrics.point import point_metrics
from specswitch.metrics.window import Window
from specswitch.sweep.measure import Measured


def point_row(
    point: AnyPoint, measured: Measured, prompts: Prompts, server: Mapping[str, Any], code: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of `point.json`.

    Args:
        server: `server` (name) and `server_log` (file and the byte range that belongs to this point).
        code: `git_commit` and `git_dirty` of this program.
    """
    load, window = measured.load, measured.load.window
    return {
        "arm": point.arm.mode,
        "label": point.arm.label,
        **measured.identity,
        "concurrency": point.concurrency,
        "repeat": point.repeat,
        "synthetic": point.server.synthetic or prompts.synthetic,
        "dataset": point.workload.dataset,
        "ignore_eos": point.workload.ignore_eos,
        "temperature": point.workload.temperature,
        "prompt_tokens": point.workload.prompt_tokens,
        "prompts_distinct": prompts.distinct,
        "stopped_by": load.stopped_by,
        "window_start_s": window.start_s if window else None,
        "window_end_s": window.end_s if window else None,
        "client_cpu_share": load.client_cpu_share,
        **numbers(point, measured),
        **server,
        **code,
    }


def numbers(point: AnyPoint, measured: Measured) -> dict[str, Any]:
    """The measured half of the row. A load that changes over time has no steady window; its row says so."""
    load = measured.load
    if isinstance(point, Point):
        closed = not point.workload.refill
        return point_metrics(load.records, measured.steps, load.window, closed_batch=closed)
    driven = Window(load.started_s, load.started_s + point.shape.duration_s)
    return {
        "shape": point.shape.text,
        "load_started_s": driven.start_s,
        "load_ended_s": driven.end_s,
        **crossing_metrics(load.records, measured.steps, driven),
    }
