"""The report's tables, as HTML: every point, and admission parity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from specswitch.metrics.parity import Parity, admission_parity
from specswitch.plots.figure import number
from specswitch.plots.grid import Grid, exists
from specswitch.plots.theme import arm_order
from specswitch.report.flags import flags
from specswitch.report.html import MISSING, Cell, Column, table
from specswitch.report.scrub import scrub
from specswitch.results.tables import FINISHED

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the points table: where its value is in a row and how it is written."""

    column: Column
    key: str
    write: Callable[[float], str] | None = None  # None: text


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


POINT_COLUMNS = (
    Shown(Column("Arm"), "label"),
    Shown(Column("C", number=True), "concurrency", _whole),
    Shown(Column("Repeat", number=True), "repeat", _whole),
    Shown(Column("Status"), "status"),
    Shown(Column("Output", "tokens/s", True), "output_tok_s", number),
    Shown(Column("TTFT", "mean, ms", True), "ttft_ms_mean", number),
    Shown(Column("TTFT", "p99, ms", True), "ttft_ms_p99", number),
    Shown(Column("ITL", "mean, ms", True), "itl_ms_mean", number),
    Shown(Column("ITL", "p99, ms", True), "itl_ms_p99", number),
    Shown(Column("TPOT", "mean, ms", True), "tpot_ms_mean", number),
    Shown(Column("TPOT", "p99, ms", True), "tpot_ms_p99", number),
    Shown(Column("E2E", "mean, ms", True), "e2e_ms_mean", number),
    Shown(Column("E2E", "p99, ms", True), "e2e_ms_p99", number),
    Shown(Column("Accept length", "verify steps", True), "accept_length", number),
    Shown(Column("Accept rate", "verify steps", True), "accept_rate", _percent),
    Shown(Column("Speculated", "of steps", True), "speculated_share_steps", _percent),
    Shown(Column("Speculated", "of tokens", True), "speculated_share_tokens", _percent),
    Shown(Column("Switches", number=True), "switches", _whole),
    Shown(Column("Completed", "requests", True), "completed", _whole),
    Shown(Column("Failed", "requests", True), "failed", _whole),
    Shown(Column("Largest batch", "running", True), "max_running_observed", _whole),
    Shown(Column("Worker class", "as reported"), "worker_class"),
    Shown(Column("Flags"), "flags"),
)


# Of a run whose load changed over time: no steady window, so every number is over the whole run.
CROSSING_COLUMNS = (
    Shown(Column("Arm"), "label"),
    Shown(Column("Repeat", number=True), "repeat", _whole),
    Shown(Column("Status"), "status"),
    Shown(Column("Output", "tokens/s", True), "output_tok_s_load", number),
    Shown(Column("ITL", "p99, ms", True), "itl_ms_whole_run_p99", number),
    Shown(Column("Accept length", "verify steps", True), "accept_length_whole_run", number),
    Shown(Column("Speculated", "of steps", True), "speculated_share_whole_run", _percent),
    Shown(Column("Switches", number=True), "switches_whole_run", _whole),
    Shown(Column("Failed", "requests", True), "failed", _whole),
    Shown(Column("Flags"), "flags"),
)
CROSSING_NOTE = (
    "Output: tokens per second while the load was driven. Everything else is over the whole run, ramps and drain "
    "included. A dash: there is no such number. What makes a point doubtful is under Flags."
)


# Shown where limits were asked for, after the latencies.
GOODPUT_COLUMNS = (
    Shown(Column("Goodput", "tokens/s", True), "goodput_tok_s", number),
    Shown(Column("Goodput", "requests/s", True), "goodput_req_s", number),
    Shown(Column("Good", "of requests", True), "goodput_requests", _percent),
    Shown(Column("Good", "requests", True), "goodput_requests_num", _whole),
    Shown(Column("Ended", "in the window", True), "goodput_requests_den", _whole),
)


def point_columns(points: pd.DataFrame) -> tuple[Shown, ...]:
    """The columns for this table: with goodput where it was asked for."""
    if "goodput_tok_s" not in points.columns:
        return POINT_COLUMNS
    at = [s.key for s in POINT_COLUMNS].index("accept_length")
    return (*POINT_COLUMNS[:at], *GOODPUT_COLUMNS, *POINT_COLUMNS[at:])


def points(points: pd.DataFrame) -> str:
    """Every point of a sweep, one row each, sortable; a missing value is a dash, never 0."""
    return _points_table(points, point_columns(points), "points")


def crossing_points(points: pd.DataFrame) -> str:
    """As `points`, of a run whose load changed over time."""
    return _points_table(points, CROSSING_COLUMNS, "crossing-points")


def _points_table(points: pd.DataFrame, shown: Sequence[Shown], name: str) -> str:
    """A table by arm, concurrency (if points have one) and repeat."""
    rows = sorted(
        points.to_dict("records"),
        key=lambda r: (
            arm_order(str(r["label"])),
            float(str(r["concurrency"])) if exists(r["concurrency"]) else 0.0,
            float(r["repeat"]),
        ),
    )
    body = [[_point_cell(row, column) for column in shown] for row in rows]
    return table([s.column for s in shown], body, name, sortable=True)


def _point_cell(row: Row, shown: Shown) -> Cell:
    if shown.key == "flags":
        return Cell(", ".join(flags(row)), kind="bad flags")
    value = row.get(shown.key)
    if not exists(value):
        return MISSING
    if shown.key == "status":
        return Cell(str(value), kind="" if value == FINISHED else "bad")
    if shown.write is None:
        return Cell(scrub(str(value)))
    amount = float(str(value))
    kind = "bad" if shown.key == "failed" and amount else ""
    return Cell(shown.write(amount), sort=amount, kind=kind)


def parities(points: pd.DataFrame) -> list[Parity]:
    """Admission parity at every concurrency; an arm's batch is the smallest of its repeats' largest."""
    grid = Grid(points)
    return [
        admission_parity(
            c,
            {
                label: min(map(int, grid.by_repeat(label, c, "max_running_observed").values()), default=None)
                for label in grid.labels
            },
        )
        for c in grid.concurrencies
    ]


def parity(points: pd.DataFrame) -> str:
    """One row per concurrency: the largest running batch of each arm, and the verdict."""
    found = parities(points)
    labels = Grid(points).labels
    columns = [
        Column("C", number=True),
        Column("Verdict"),
        *(Column(label, number=True) for label in labels),
    ]
    verdicts = {
        True: Cell("same load", kind="good"),
        False: Cell("different load", kind="bad"),
        None: Cell("not comparable", kind="none"),
    }
    rows = [
        [
            Cell(str(p.concurrency)),
            verdicts[p.ok],
            *(MISSING if b is None else Cell(f"{b:,}") for b in (p.observed[label] for label in labels)),
        ]
        for p in found
    ]
    return table(columns, rows, "parity")
