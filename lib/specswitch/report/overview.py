"""The top of the report: what was measured, what the arms mean, how the run ended."""

from __future__ import annotations

from datetime import datetime

import pandas as pd

from specswitch.config import SHAPE_PREFIX, project_root
from specswitch.metrics.goodput import Limits
from specswitch.plots.grid import Grid, labels_of
from specswitch.plots.switching import envelope_series
from specswitch.report import best_dynamic, findings, simulated
from specswitch.report.flags import unequal_repeats, warnings
from specswitch.report.html import MISSING, Cell, Column, table
from specswitch.report.scrub import scrub
from specswitch.report.tables import parities
from specswitch.results import Run, read_run
from specswitch.results import table as points_table
from specswitch.results.tables import FINISHED

REFILLED = "closed loop, a request that ends is replaced at once"
NOT_REFILLED = "closed batches, all requests sent at once, without replacement"
_PATHS = {
    "v1": "EAGLE-3 on the v1 worker, no overlap scheduling",
    "v2": "EAGLE-3 on the v2 worker, overlap scheduling",
}
_MODES = {
    "always": "every decode step speculates",
    "off": "speculation configured, but switched off at every batch",
    "dynamic": "speculates while the running batch is at most {threshold}",
}
_NONE = {
    "none": "no speculative flags at all: the engine's default server, overlap scheduling",
    "none-sync": "no speculative flags, overlap scheduling switched off: the fair partner of v1",
}


def open_run(
    run_dir: str, ttft_limit_ms: float | None = None, tpot_limit_ms: float | None = None
) -> tuple[Run, pd.DataFrame]:
    """The run in `run_dir` and its table; a relative path counts from the root of the checkout.

    A limit given here takes the place of both that the run was made with.

    Raises DamagedError or SchemaError when there is no readable run, ValueError for an impossible limit.
    """
    run = read_run(project_root() / run_dir)
    limits = Limits(ttft_limit_ms, tpot_limit_ms)
    return run, points_table(run, limits if limits.asked else None)


def model_names(run: Run) -> tuple[str, str]:
    """Short names of target and draft: the last part of their ids."""
    ids = (str(run.manifest["models"][role]["id"]) for role in ("model", "draft"))
    target, draft = (model.rstrip("/").rsplit("/", 1)[-1] for model in ids)
    return target, draft


def subject(run: Run) -> str:
    """What was served, by which engine, on which machine: the beginning of a sentence."""
    target, draft = model_names(run)
    model, simulated = (run.manifest["parameters"].get(k) for k in ("model", "simulated_accept_length"))
    what = f"{target} with the EAGLE-3 draft {draft}"
    if str(model).startswith(SHAPE_PREFIX):
        what = f"Random weights in the shape {str(model).removeprefix(SHAPE_PREFIX)} with an EAGLE-3 head"
    if simulated is not None:
        what += f", acceptance simulated at {simulated:g} tokens per verify step"
    recorded = run.manifest["provenance"]
    return f"{what}, served by SGLang {recorded['packages']['sglang']} on {recorded['device']}"


def lede(run: Run, points: pd.DataFrame) -> str:
    """One paragraph: models, device, size of the grid, kind of load, when."""
    grid = Grid(points)
    at = datetime.fromisoformat(run.manifest["started_at"])
    repeats = points["repeat"].nunique()
    refilled = run.manifest["plan"].get("workload", {}).get("refill", True)
    return scrub(
        f"{subject(run)}. {many(len(grid.labels), 'arm')} at "
        f"{many(len(grid.concurrencies), 'concurrency', 'concurrencies')}, {many(repeats, 'repeat')}; "
        f"{REFILLED if refilled else NOT_REFILLED}. Begun on {at.day} {at:%B %Y, %H:%M} UTC."
    )


def summary(run: Run, points: pd.DataFrame) -> list[str]:
    """What the run shows, in sentences, the state of the run itself last."""
    sentences = [
        *unequal_repeats(points),
        findings.throughput(points),
        *findings.ratio(points[~points["label"].isin(_with_envelope(points))]),
        *findings.envelope(points),
        *best_dynamic.sentences(points),
        *findings.accept_lengths(points),
        *simulated.sentences(run, points),
        *findings.goodput(points),
    ]
    capped = [p for p in parities(points) if p.ok is False]
    sentences += [f"Not the same load: {p.message}." for p in capped]
    return [scrub(s) for s in [*sentences, *warnings(points), state(run, points)]]


def _with_envelope(points: pd.DataFrame) -> list[str]:
    """The dynamic arms that are told about by their envelope, which says more than their baseline does."""
    return [series.label for series in envelope_series(Grid(points)) if series.drawable]


def state(run: Run, points: pd.DataFrame) -> str:
    """How many points finished, how many requests failed."""
    done = points[points["status"] == FINISHED]
    failed = int(done["failed"].sum()) if "failed" in done.columns else 0
    requests = f"{failed:,} requests failed in them" if failed else "no request failed in them"
    text = f"{len(done)} of {many(len(points), 'planned point')} finished; {requests}."
    if run.problems:
        text += f" {many(len(run.problems), 'point')} could not be read: {scrub('; '.join(run.problems))}."
    return text


def arms(points: pd.DataFrame) -> str:
    """A table that says in words what each arm is, and which sync rule and worker class its server reported."""
    rows = []
    for label in labels_of(points):
        of_arm = points[points["label"] == label]
        done = of_arm[of_arm["status"] == FINISHED]
        rows.append(
            [
                Cell(label),
                Cell(arm_in_words(of_arm.iloc[0].to_dict()), kind="wrap"),
                _reported(done, "sync"),
                _reported(done, "worker_class"),
                Cell(f"{len(done)} of {len(of_arm)}", kind="" if len(done) == len(of_arm) else "bad"),
            ]
        )
    reported = [Column(name, "as reported") for name in ("Sync rule", "Worker class")]
    columns = [Column("Arm"), Column("What it is"), *reported, Column("Points", "finished")]
    return table(columns, rows, "arms")


def _reported(done: pd.DataFrame, column: str) -> Cell:
    """What the servers of an arm's finished points said of themselves; a dash where they said nothing."""
    values = sorted(done[column].dropna().unique()) if column in done.columns else []
    return Cell(", ".join(map(str, values))) if values else MISSING


def arm_in_words(row: dict[str, object]) -> str:
    """What an arm does, from a row of the table (`label`, `arm`, `path`, `threshold`)."""
    label, mode, path = (str(row.get(key)) for key in ("label", "arm", "path"))
    if mode not in _MODES or path not in _PATHS:
        return _NONE.get(label, label)
    return f"{_PATHS[path]}; {_MODES[mode].format(threshold=row.get('threshold'))}"


def many(count: int, noun: str, plural: str | None = None) -> str:
    """`1 repeat`, `1,200 repeats`."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
