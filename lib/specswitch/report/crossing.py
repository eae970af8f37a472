"""A crossing run in words and one table. A difference is claimed only where the paired 95 % interval leaves 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from specswitch.metrics.intervals import Interval, mean_interval
from specswitch.metrics.recovery import BACK, SOON
from specswitch.metrics.repeats import EFFECT, MOST, log_spread, repeats_needed
from specswitch.plots.figure import TIMES, interval_text, known, number, unknown
from specswitch.plots.grid import exists, labels_of, positive_ratio
from specswitch.plots.throughput import baseline_of
from specswitch.report.findings import VERDICTS, verdict
from specswitch.report.flags import unequal_repeats, warnings
from specswitch.report.html import MISSING, Cell, Column, table
from specswitch.report.overview import many, state, subject
from specswitch.report.scrub import scrub
from specswitch.results import Run
from specswitch.results.crossing import Crossing
from specswitch.results.tables import FINISHED

SPEED = "output_tok_s_load"
NO_RECOVERY = (
    "Whether acceptance comes back cannot be seen in this run: the engine drew every accept length, whatever the "
    "draft's KV cache held, so any sync rule, stale too, looks recovered. It takes a trained head."
)


# A cost known to so many usual steps is known.
STEPS_SMALL = 1.0


def _hundredths(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # + 0.0: no "-0.00"


def _count(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the arms table: a number of the points, as mean over repeats.

    `small`: a half-width that says enough, in the number's own unit. `counted`: a plain count, which is known
    whatever its interval says; repeats that differ much stand as their least and their most.
    """

    name: str
    key: str
    write: Callable[[float], str] = number
    small: float = 0.0
    counted: bool = False


ROWS = (
    Shown("Output, tokens/s while driven", SPEED),
    Shown("TTFT, mean, ms", "ttft_ms_whole_run_mean"),
    Shown("TTFT, p99, ms", "ttft_ms_whole_run_p99"),
    Shown("ITL, p99, ms", "itl_ms_whole_run_p99"),
    Shown("TPOT, mean, ms", "tpot_ms_whole_run_mean"),
    Shown("Queue delay, p99, ms", "queue_delay_ms_whole_run_p99", _hundredths, small=1.0),
    Shown("Accept length, verify steps", "accept_length_whole_run"),
    Shown("Speculated, of steps", "speculated_share_whole_run", "{:.0%}".format, small=0.05),
    Shown("Switches", "switches_whole_run", _count, small=1.0, counted=True),
    Shown("Resumes", "resumes", _count, small=1.0, counted=True),
    Shown("Change to plain, usual steps", "switch_cost_steps_to_plain", _hundredths, STEPS_SMALL),
    Shown("Change to speculative, usual steps", "switch_cost_steps_to_speculative", _hundredths, STEPS_SMALL),
)
ARMS_NOTE = (
    "Means over repeats, ± half the 95% t interval. A dash: there is no such number. Not known: half the interval is "
    "more than the number itself; a queue delay or a cost within ± 1 (ms, usual step) and a share within ± 5% are "
    "shown however small they are. Counts whose repeats differ more than that stand as the least and the most of a "
    "repeat (8 to 10). The table of points below has single repeats of the main ones, the run's "
    "points/*/point.json all."
)


def lede(run: Run, seen: Crossing) -> str:
    """One paragraph: models, device, load, when."""
    at = datetime.fromisoformat(run.manifest["started_at"])
    known = seen.points.get("shape")
    load = known.dropna().iloc[0] if known is not None and known.notna().any() else "of the plan"
    return scrub(
        f"{subject(run)}. {many(seen.points['label'].nunique(), 'arm')} under the load {load}, "
        f"{many(seen.points['repeat'].nunique(), 'repeat')}, begun on {at.day} {at:%B %Y, %H:%M} UTC."
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
    labels = labels_of(seen.points)
    sentences = []
    for label in labels:
        own = _mean(seen, label, SPEED)
        if own is None:
            continue
        partners = [baseline_of(label, labels)]
        if label.startswith("dynamic-"):
            partners.append(f"always-{label.split('-')[1]}")
        against = [_against(seen, label, other) for other in partners if other in labels]
        makes = f"{label} makes {interval_text(own, 3, ' tokens/s')}"
        if not known(own):
            makes = f"How many tokens/s {label} makes is {unknown(own)}"
        sentences.append(f"{makes}{''.join(f', {a}' for a in against)}.")
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
        sentences.append(
            f"In the first {SOON} verify steps since a resume, the accept length of {label} is {_recovered(ratio)}."
        )
    return sentences


def no_recovery(run: Run) -> str:
    """Why there is no recovery curve to show."""
    if run.acceptance_drawn:
        return NO_RECOVERY
    return "No recovery curve: it needs an arm that resumed, and always on the same path."


def _recovered(ratio: Interval) -> str:
    """A ratio to always-on, and what its interval says: about being the same, and about being back (`BACK`)."""
    if not known(ratio, TIMES):
        return f"a share of always-on that is {unknown(ratio)}"
    text = interval_text(ratio, 3, f"{TIMES} that of always-on")
    if ratio.low is None or ratio.high is None:
        return f"{text}; one repeat tells no more"
    level = dict(zip(VERDICTS, ("longer, told apart from 1", "shorter, told apart from 1", ""), strict=True))
    told = level[verdict(ratio)] or f"{VERDICTS[2]} always-on"
    if ratio.low >= BACK or ratio.high < BACK:
        return f"{text}: {told}, and told to be {'at least' if ratio.low >= BACK else 'below'} {BACK:g}"
    return f"{text}: {told}; whether it is at least {BACK:g} is open"


def costs(seen: Crossing) -> list[str]:
    """What a change of mode costs each arm that switches."""
    sentences = []
    for label in labels_of(seen.points):
        parts = []
        for key, words in (
            ("to_speculative", "back to speculative steps"),
            ("to_plain", "to plain steps, with the prefills of the requests that caused it,"),
        ):
            cost = _mean(seen, label, f"switch_cost_steps_{key}")
            if cost is not None:
                amount = interval_text(cost, 2, " usual steps", STEPS_SMALL)
                told = f"costs {amount}" if known(cost, small=STEPS_SMALL) else f"has a cost {amount}"
                parts.append(f"{words} {told}")
        if parts:
            sentences.append(
                f"{label}: a change {' and one '.join(parts)} (medians over the changes of a point)."
            )
    return sentences


def arms(seen: Crossing) -> str:
    """One column per arm: its finished points, failed requests, and means over repeats; missing is a dash."""
    labels = labels_of(seen.points)
    rows = [[Cell("Finished points"), *(_finished(seen, label) for label in labels)]]
    rows += [
        [
            Cell(shown.name),
            *(_cell(list(_by_repeat(seen, label, shown.key).values()), shown) for label in labels),
        ]
        for shown in ROWS
    ]
    rows.append([Cell("Failed requests, all repeats"), *(_failed(seen, label) for label in labels)])
    columns = [Column(""), *(Column(label, number=True) for label in labels)]
    return table(columns, rows, "crossing-arms")


def _finished(seen: Crossing, label: str) -> Cell:
    of_arm = seen.points[seen.points["label"] == label]
    done = int((of_arm["status"] == FINISHED).sum())
    return Cell(f"{done} of {len(of_arm)}", kind="" if done == len(of_arm) else "bad")


def _failed(seen: Crossing, label: str) -> Cell:
    found = _by_repeat(seen, label, "failed")
    if not found:
        return MISSING
    return Cell(f"{sum(found.values()):,.0f}", kind="bad" if any(found.values()) else "")


def _cell(values: Sequence[float], shown: Shown) -> Cell:
    interval = mean_interval(values)
    if interval is None:
        return MISSING
    if interval.high is None:
        return Cell(shown.write(interval.mean))
    if not known(interval, small=shown.small):
        if shown.counted:
            return Cell(f"{shown.write(min(values))} to {shown.write(max(values))}")
        return Cell("not known", kind="none")
    mean, half = shown.write(interval.mean), interval.high - interval.mean
    near = f"{half:,.{len(mean.partition('.')[2])}f}" if shown.write is number else shown.write(half)
    return Cell(f"{mean} ± {near}")


def _by_repeat(seen: Crossing, label: str, column: str) -> dict[int, float]:
    if column not in seen.points.columns:
        return {}
    rows: pd.DataFrame = seen.points[seen.points["label"] == label]
    values = zip(rows["repeat"], rows[column], strict=True)
    return {int(repeat): float(value) for repeat, value in values if exists(value)}


def _mean(seen: Crossing, label: str, column: str) -> Interval | None:
    return mean_interval(list(_by_repeat(seen, label, column).values()))


def _against(seen: Crossing, label: str, other: str) -> str:
    """`faster than none (1.2× (1.1× to 1.3×), n = 3)`; of one repeat the ratio, with no verdict."""
    ours, theirs = (_by_repeat(seen, name, SPEED) for name in (label, other))
    both = sorted(set(ours) & set(theirs))
    ratio = positive_ratio([ours[r] for r in both], [theirs[r] for r in both])
    if ratio is None:
        return f"not yet to be told from {other}"
    if ratio.low is None or ratio.high is None:
        return f"{number(ratio.mean)}{TIMES} {other}"
    if not known(ratio, TIMES):
        return f"against {other} {unknown(ratio)}{_repeats_for(ratio)}"
    return f"{verdict(ratio)} {other} ({interval_text(ratio, 3, TIMES)}){_repeats_for(ratio)}"


def _repeats_for(ratio: Interval) -> str:
    """Where no difference can be told: how many repeats a small one would take."""
    spread = log_spread(ratio)
    if spread is None or verdict(ratio) != VERDICTS[2]:
        return ""
    needed = repeats_needed(spread)
    many_ = f"about {needed:,}" if needed else f"more than {MOST:,}"
    return f"; to tell {EFFECT:.0%} apart, {many_} repeats"
