"""A crossing run in words and one table. A difference is claimed only where the paired 95 % interval leaves 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from specswitch.metrics.intervals import Interval, mean_interval
from specswitch.metrics.recovery import BACK, SOON
from specswitch.metrics.repeats import EFFECT, MOST, log_spread, repeats_needed
from specswitch.plots import theme
from specswitch.plots.figure import interval_text, number
from specswitch.plots.grid import exists, positive_ratio
from specswitch.plots.throughput import baseline_of
from specswitch.report.findings import VERDICTS, verdict
from specswitch.report.flags import unequal_repeats, warnings
from specswitch.report.html import MISSING, Cell, Column, table
from specswitch.report.overview import arm_in_words, state, subject
from specswitch.report.scrub import scrub
from specswitch.results import Run
from specswitch.results.crossing import Crossing
from specswitch.results.tables import FINISHED

SPEED = "output_tok_s_load"


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the arms table: a number of the point's row, as mean over repeats."""

    column: Column
    key: str
    write: Callable[[float], str] = number


COLUMNS = (
    Shown(Column("Output", "tokens/s while driven", True), SPEED),
    Shown(Column("TTFT", "mean, ms", True), "ttft_ms_whole_run_mean"),
    Shown(Column("TTFT", "p99, ms", True), "ttft_ms_whole_run_p99"),
    Shown(Column("TPOT", "mean, ms", True), "tpot_ms_whole_run_mean"),
    Shown(Column("Queue delay", "p99, ms", True), "queue_delay_ms_whole_run_p99"),
    Shown(Column("Accept length", "verify steps", True), "accept_length_whole_run"),
    Shown(Column("Speculated", "of steps", True), "speculated_share_whole_run", "{:.0%}".format),
    Shown(Column("Switches", number=True), "switches_whole_run"),
    Shown(Column("Resumes", number=True), "resumes"),
    Shown(Column("To plain", "cost, steps", True), "switch_cost_steps_to_plain", "{:.2f}".format),
    Shown(Column("To speculative", "cost, steps", True), "switch_cost_steps_to_speculative", "{:.2f}".format),
    Shown(Column("Failed", "requests", True), "failed"),
)


def lede(run: Run, seen: Crossing) -> str:
    """One paragraph: models, device, load, when."""
    at = datetime.fromisoformat(run.manifest["started_at"])
    known = seen.points.get("shape")
    load = known.dropna().iloc[0] if known is not None and known.notna().any() else "of the plan"
    return scrub(
        f"{subject(run)}. {seen.points['label'].nunique()} arms under the load {load}, "
        f"{seen.points['repeat'].nunique()} repeats, begun on {at.day} {at:%B %Y, %H:%M} UTC."
    )


def summary(run: Run, seen: Crossing) -> list[str]:
    """What the run shows, in sentences, the state of the run itself last."""
    found = [
        *unequal_repeats(seen.points),
        *speeds(seen),
        *recoveries(seen),
        *costs(seen),
        *warnings(seen.points),
    ]
    return [scrub(s) for s in [*found, state(run, seen.points)]]


def speeds(seen: Crossing) -> list[str]:
    """Output while the load was driven: each arm against its baseline, each dynamic arm against always, too."""
    labels = _labels(seen)
    sentences = []
    for label in labels:
        own = _mean(seen, label, SPEED)
        if own is None:
            continue
        partners = [baseline_of(label, labels)]
        if label.startswith("dynamic-"):
            partners.append(f"always-{label.split('-')[1]}")
        against = [_against(seen, label, other) for other in partners if other in labels]
        sentences.append(
            f"{label} makes {interval_text(own, 3, ' tokens/s')}{''.join(f', {a}' for a in against)}."
        )
    return sentences


def recoveries(seen: Crossing) -> list[str]:
    """How near to always-on each dynamic arm is in its first verify steps after a resume."""
    sentences = []
    for label, rows in seen.recovery.groupby("label", sort=False):
        soon = rows[(rows["step"] <= SOON) & rows["always_den"].notna()]
        by_repeat = [group for _, group in soon.groupby("repeat")]
        ours = [float(g["num"].sum()) / float(g["den"].sum()) for g in by_repeat]
        always = [float(g["always_num"].iloc[0]) / float(g["always_den"].iloc[0]) for g in by_repeat]
        ratio = positive_ratio(ours, always)
        if ratio is None:
            continue
        told = f"at least {BACK:g}" if ratio.mean >= BACK else f"below {BACK:g}"
        level = "" if ratio.low is None or verdict(ratio) != VERDICTS[2] else f"; {VERDICTS[2]} always-on"
        sentences.append(
            f"In the first {SOON} verify steps since a resume, the accept length of {label} is "
            f"{interval_text(ratio, 3, '×')} of always-on: {told} on average{level}."
        )
    return sentences


def costs(seen: Crossing) -> list[str]:
    """What a change of mode costs each arm that switches."""
    sentences = []
    for label in _labels(seen):
        parts = []
        for key, words in (("to_speculative", "back to speculative steps"), ("to_plain", "to plain steps")):
            cost = _mean(seen, label, f"switch_cost_steps_{key}")
            if cost is not None:
                parts.append(f"{words} costs {interval_text(cost, 2, ' usual steps')}")
        if parts:
            sentences.append(
                f"{label}: a change {' and one '.join(parts)} (medians over the changes of a point)."
            )
    return sentences


def arms(seen: Crossing) -> str:
    """One row per arm: what it is, its finished points, and means over repeats; a missing value is a dash."""
    rows = []
    for label in _labels(seen):
        of_arm = seen.points[seen.points["label"] == label]
        done = int((of_arm["status"] == FINISHED).sum())
        rows.append(
            [
                Cell(label),
                Cell(arm_in_words(of_arm.iloc[0].to_dict()), kind="wrap"),
                Cell(f"{done} of {len(of_arm)}", kind="" if done == len(of_arm) else "bad"),
                *(_cell(_mean(seen, label, shown.key), shown) for shown in COLUMNS),
            ]
        )
    columns = [Column("Arm"), Column("What it is"), Column("Points", "finished")]
    return table([*columns, *(s.column for s in COLUMNS)], rows, "crossing-arms")


def _cell(interval: Interval | None, shown: Shown) -> Cell:
    if interval is None:
        return MISSING
    bad = "bad" if shown.key == "failed" and interval.mean else ""
    if interval.high is None:
        return Cell(shown.write(interval.mean), kind=bad)
    return Cell(f"{shown.write(interval.mean)} ± {shown.write(interval.high - interval.mean)}", kind=bad)


def _labels(seen: Crossing) -> list[str]:
    return sorted({str(label) for label in seen.points["label"]}, key=theme.arm_order)


def _by_repeat(seen: Crossing, label: str, column: str) -> dict[int, float]:
    if column not in seen.points.columns:
        return {}
    rows: pd.DataFrame = seen.points[seen.points["label"] == label]
    values = zip(rows["repeat"], rows[column], strict=True)
    return {int(repeat): float(value) for repeat, value in values if exists(value)}


def _mean(seen: Crossing, label: str, column: str) -> Interval | None:
    return mean_interval(list(_by_repeat(seen, label, column).values()))


def _against(seen: Crossing, label: str, other: str) -> str:
    """`faster than none: 1.2× (1.1× to 1.3×), n = 3`; without two repeats, that it cannot be told."""
    ours, theirs = (_by_repeat(seen, name, SPEED) for name in (label, other))
    both = sorted(set(ours) & set(theirs))
    ratio = positive_ratio([ours[r] for r in both], [theirs[r] for r in both])
    if ratio is None or ratio.low is None or ratio.high is None:
        return f"not yet to be told from {other}"
    return f"{verdict(ratio)} {other} ({interval_text(ratio, 3, '×')}){_repeats_for(ratio)}"


def _repeats_for(ratio: Interval) -> str:
    """Where no difference can be told: how many repeats a small one would take."""
    spread = log_spread(ratio)
    if spread is None or verdict(ratio) != VERDICTS[2]:
        return ""
    needed = repeats_needed(spread)
    return f"; to tell {EFFECT:.0%} apart, about {needed or f'more than {MOST}'} repeats"
