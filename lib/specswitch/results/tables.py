"""A run as a table: one row per planned point, numbers flattened by name, missing values as pandas writes them.

A point without a result is a row with status "missing" and no numbers, so that a figure can show the gap.
`accept_length` has `accept_length_num` and `accept_length_den` beside it, as every rate; the share of
speculative steps is called `speculated_share_steps`, beside `speculated_share_tokens`. Goodput is computed
here, from the stored requests, where limits were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from specswitch.metrics.goodput import Limits, goodput
from specswitch.metrics.intervals import mean_interval
from specswitch.metrics.window import Window
from specswitch.results.run import Run

FINISHED, MISSING = "finished", "missing"
RENAMED = {"speculated_share": "speculated_share_steps"}
LEFT_OUT = ("digest", "files", "schema_version", "errors", "server_log", "policy")


def table(run: Run, limits: Limits | None = None) -> pd.DataFrame:
    """One row per planned point, in planned order; columns as in `point.json`, flattened.

    Whole numbers are `Int64`, other numbers `float64`, flags `boolean`; the rest are texts. With `limits`
    (default: those that the run's parameters ask for) there are columns as in `metrics.goodput`, beside
    `ttft_limit_ms` and `tpot_limit_ms`.
    """
    limits = limits or limits_of(run)
    rows = {p["point_id"]: {"status": FINISHED, **flat(p), **_goodput(run, p, limits)} for p in run.points}
    ordered = [rows.get(p["point_id"], {"status": MISSING, **p}) for p in run.manifest["points"]]
    columns = dict.fromkeys(name for row in ordered for name in row)
    return pd.DataFrame({name: _column(row.get(name) for row in ordered) for name in columns})


def limits_of(run: Run) -> Limits:
    """The limits on TTFT and TPOT that the run's parameters ask for; none where it knows no such parameters."""
    asked = run.manifest["parameters"]
    return Limits(asked.get("ttft_limit_ms"), asked.get("tpot_limit_ms"))


def _goodput(run: Run, point: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """The goodput columns of a point with a steady window, under the limits; nothing where none is asked."""
    if not limits.asked or run.kind == "crossing":
        return {}
    start_s, end_s = point.get("window_start_s"), point.get("window_end_s")
    window = None if start_s is None or end_s is None else Window(start_s, end_s)
    limited = {"ttft_limit_ms": limits.ttft_ms, "tpot_limit_ms": limits.tpot_ms}
    return {**goodput(run.requests(point["point_id"]), window, limits), **limited}


def flat(point: dict[str, Any]) -> dict[str, Any]:
    """A point's entries by one name each: `ttft_ms_p99`, `accept_rate_den`, `prompt_lengths_max`, ..."""
    row: dict[str, Any] = {}
    for key, value in point.items():
        name = RENAMED.get(key, key)
        if key in LEFT_OUT:
            continue
        if key == "ratios":
            for rate, parts in value.items():
                row.update({f"{RENAMED.get(rate, rate)}_{part}": n for part, n in parts.items()})
        elif isinstance(value, dict):
            row.update({f"{name}_{part}": number for part, number in value.items()})
        else:
            row[name] = value
    return row


def summary(points: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Mean over repeats with a 95 % t interval, one row per arm, concurrency and column of `points`.

    Columns: `label`, `concurrency`, `metric`, `mean`, `low`, `high`, `n`. Where no repeat has a value there
    is no row; with one repeat `low` and `high` are missing.
    """
    finished = points[points["status"] == FINISHED]
    rows = []
    for (label, concurrency), group in finished.groupby(["label", "concurrency"], sort=False):
        for column in columns:
            interval = mean_interval([float(v) for v in group[column].dropna()])
            if interval is not None:
                rows.append((label, concurrency, column, *_parts(interval)))
    names = ["label", "concurrency", "metric", "mean", "low", "high", "n"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype({"low": "float64", "high": "float64"})


def _parts(interval: Any) -> tuple[Any, ...]:
    return interval.mean, interval.low, interval.high, interval.n


def _column(values: Iterable[Any]) -> pd.Series:
    """A column with a type of its own; what is missing stays missing."""
    cells = list(values)
    kinds = {type(v) for v in cells if v is not None}
    if not kinds:
        return pd.Series(cells, dtype="object")
    if kinds == {bool}:
        return pd.Series(cells, dtype="boolean")
    if kinds == {int}:
        return pd.Series(cells, dtype="Int64")
    if kinds <= {int, float}:
        return pd.Series([None if v is None else float(v) for v in cells], dtype="float64")
    return pd.Series(cells, dtype="object")
