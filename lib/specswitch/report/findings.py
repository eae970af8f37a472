"""What the figures show, in sentences computed from the table. A difference is claimed only where the 95 %
interval of the paired ratio lies wholly on one side of 1; otherwise it is "not distinguishable", or "not known"
where the interval says nothing, as in the tables.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from specswitch.metrics.intervals import Interval
from specswitch.plots.figure import TIMES, interval_text, known, number, unknown
from specswitch.plots.goodput import COLUMN as GOOD
from specswitch.plots.goodput import limits_text
from specswitch.plots.grid import Grid, Series
from specswitch.plots.switching import envelope_needs, envelope_series
from specswitch.plots.throughput import COLUMN, baseline_of, ratios
from specswitch.report.acceptance_loads import pooled, verifying

VERDICTS = ("faster than", "slower than", "not distinguishable from")
NOT_KNOWN = "not known"
NOT_KNOWN_AGAINST = f"{NOT_KNOWN} against"
_ENVELOPE_VERDICTS = dict(zip(VERDICTS, ("above it", "below it", f"{VERDICTS[2]} it"), strict=True))


def throughput(table: pd.DataFrame) -> str:
    """Which arm reached the most, and where, with its interval and the arms it is not told apart from there."""
    grid = Grid(table)
    tops = [
        (p.mean, s.name, c, p)
        for s in (grid.mean(label, COLUMN) for label in grid.labels)
        for c, p in zip(s.x, s.points, strict=True)
        if p is not None
    ]
    if not tops:
        return "No point reached a steady window, so there is no throughput to show."
    most, name, at, top = max(tops, key=lambda found: found[:3])
    if most <= 0:
        return "No output token fell into a steady window, so there is no throughput to show."
    if not known(top):
        return f"The highest mean output throughput is that of {name} at C = {at}; how much it is, is {unknown(top)}."
    much = interval_text(top, 3, " tokens/s")
    return f"The highest output throughput is that of {name}: {much}, at C = {at}{_rivals(grid, name, at)}."


def _rivals(grid: Grid, top: str, at: int) -> str:
    """The arms that may be as fast as the one with the highest mean at this load; "" where no interval can say so."""
    place = grid.concurrencies.index(at)
    others = {o: grid.ratio(o, top, COLUMN).points[place] for o in grid.labels if o != top}
    ratios = {label: ratio for label, ratio in others.items() if ratio is not None and ratio.low is not None}
    if not ratios:
        return ""
    near = [label for label, ratio in ratios.items() if verdict(ratio) != VERDICTS[1]]
    return (
        f"; there not told apart from {', '.join(near)}"
        if near
        else "; there told apart from every other arm"
    )


def ratio(table: pd.DataFrame) -> list[str]:
    """One sentence per speculating arm: where it is faster, slower, not distinguishable, not known."""
    grid = Grid(table)
    sentences = []
    for series, baseline in ratios(grid):
        if baseline == baseline_of(series.label, grid.labels) and series.drawable:
            text = against(series, baseline)
            if not text:
                sentences.append(
                    f"{series.label} cannot be told from {baseline} yet: no concurrency has two repeats."
                )
            elif text.startswith(NOT_KNOWN_AGAINST):
                sentences.append(f"Whether {series.label} is faster or slower is {text}.")
            else:
                sentences.append(f"{series.label} is {text}.")
    return sentences


def envelope(table: pd.DataFrame) -> list[str]:
    """One sentence per dynamic arm on how near it stays to the better static arm; its worst is of loads known."""
    sentences = []
    for series in envelope_series(Grid(table)):
        found = [(c, p) for c, p in zip(series.x, series.points, strict=True) if p is not None]
        if not found:
            continue
        paired = [(c, p) for c, p in found if p.low is not None]
        sure = [(c, p) for c, p in paired if known(p, TIMES)]
        if paired and not sure:
            share = f"What share of the envelope {series.label} reaches is {unknown(paired[0][1])}"
            sentences.append(f"{share} at {places([c for c, _ in paired], series.x)}.")
            continue
        groups: dict[str, list[int]] = {told: [] for told in (*_ENVELOPE_VERDICTS.values(), NOT_KNOWN)}
        for c, p in found:
            groups[_ENVELOPE_VERDICTS[verdict(p)] if (c, p) in sure else NOT_KNOWN].append(c)
        told = "; ".join(f"{words} at {places(at, series.x)}" for words, at in groups.items() if at)
        worst = _worst(series.label, *min(sure or found, key=lambda cp: cp[1].mean))
        unknown_yet = "It cannot be told from the envelope yet: no concurrency has two repeats"
        sentences.append(f"{worst}. {f'By load: {told}' if sure else unknown_yet}.")
    return sentences


def no_envelope(table: pd.DataFrame) -> str:
    """Why there is no envelope to show, and which arms would give one."""
    grid = Grid(table)
    lacking = envelope_needs(grid)
    if lacking:
        return f"No envelope to show. {' '.join(lacking)}"
    if any(label.startswith("dynamic-") for label in grid.labels):
        return (
            "No envelope to show: nowhere do a dynamic arm, never and always have a value in the same repeat."
        )
    paths = {path for path in ("v1", "v2") for label in grid.labels if path in label.split("-")}
    path = "v1" if paths == {"v1"} else "v2"
    wanted = ("none-sync" if path == "v1" else "none", f"always-{path}", f"dynamic-{path}-t8")
    add = " and ".join(arm for arm in wanted if arm not in grid.labels)
    return (
        f"No dynamic arm, so no envelope to show. To see one, add {add} (or another threshold) to the arms."
    )


def acceptance(table: pd.DataFrame) -> list[str]:
    """One sentence per verifying arm, from the counts summed over the loads that it can be compared at."""
    grid = Grid(table)
    sentences = []
    for path in verifying(grid):
        for label, loads in path.loads.items():
            length, rate = (pooled(grid, label, name, loads) for name in ("accept_length", "accept_rate"))
            if length is not None and rate is not None:
                apart = "" if path.shared else ", loads that not every other arm on its path verified at"
                sentences.append(
                    f"{label} emits {number(length)} tokens per request and verify step, with {rate:.0%} of its "
                    f"drafts accepted, at {places(loads, grid.concurrencies)}{apart}."
                )
    return sentences


def accept_lengths(table: pd.DataFrame) -> list[str]:
    """One sentence per path with the accept length of its verifying arms, over loads that all of them have."""
    grid = Grid(table)
    sentences = []
    for path in verifying(grid):
        parts = []
        for label, loads in path.loads.items():
            length = pooled(grid, label, "accept_length", loads)
            own = "" if path.shared else f" ({places(loads, grid.concurrencies)})"
            parts.append(f"{label} {number(length or 0.0)}{own}")
        over = places(next(iter(path.loads.values())), grid.concurrencies)
        if path.shared and len(path.loads) > 1:
            over += ", where all of these verified"
        where = f"at {over}" if path.shared else "each at loads of its own, so not comparable"
        sentences.append(
            f"Accept length on {path.path} (tokens per request and verify step), {where}: {', '.join(parts)}."
        )
    return sentences


def latency(table: pd.DataFrame) -> list[str]:
    """One sentence per speculating arm: mean TPOT beside its baseline's, at both ends of the grid."""
    grid = Grid(table)
    sentences = []
    for label in grid.labels:
        baseline = baseline_of(label, grid.labels)
        if baseline is None:
            continue
        ours, theirs = (grid.mean(name, "tpot_ms_mean").points for name in (label, baseline))
        both = [(c, a, b) for c, a, b in zip(grid.concurrencies, ours, theirs, strict=True) if a and b]
        ends = (
            [f"{_ms(a)} at C = {c} ({baseline}: {_ms(b)})" for c, a, b in dict.fromkeys((both[0], both[-1]))]
            if both
            else []
        )
        if ends:
            sentences.append(f"{label} needs, per further token, {' and '.join(ends)}.")
    return sentences


def goodput(table: pd.DataFrame) -> list[str]:
    """One sentence per arm: the concurrency at which it serves most within the limits; none without limits."""
    grid, limits = Grid(table), limits_text(table)
    if limits is None:
        return []
    tops = []
    for label in grid.labels:
        rates = grid.mean(label, GOOD)
        known = [(p.mean, c) for c, p in zip(rates.x, rates.points, strict=True) if p is not None]
        if known:
            most, at = max(known)
            tops.append(f"{label} {number(most)} tokens/s at C = {at}" if most > 0 else f"{label} nothing")
    return [f"Most output within {limits}: {'; '.join(tops)}."] if tops else []


def speculation(table: pd.DataFrame) -> list[str]:
    """One sentence per switchable arm: where it speculated always, sometimes, never."""
    grid = Grid(table)
    sentences = []
    for label in grid.labels:
        shares = grid.mean(label, "speculated_share_steps")
        if label.split("-", 1)[0] not in ("dynamic", "off") or not shares.drawable:
            continue
        groups: dict[str, list[int]] = {"every step": [], "some steps": [], "no step": []}
        for c, p in zip(shares.x, shares.points, strict=True):
            if p is not None:
                groups["every step" if p.mean == 1 else "no step" if p.mean == 0 else "some steps"].append(c)
        text = ", ".join(f"in {share} at {places(at, shares.x)}" for share, at in groups.items() if at)
        one_mode = sorted(groups["every step"] + groups["no step"])
        # Steps of one mode only: a change that was counted can but lie between the ramp and the first of them.
        entered = [c for c in one_mode if any(grid.by_repeat(label, c, "switches").values())]
        if entered:
            at = places(entered, shares.x)
            text += f" (switches counted at {at}: into its first step, from the ramp before)"
        sentences.append(f"In the steady window, {label} speculated {text}.")
    return sentences


def against(series: Series, baseline: str) -> str:
    """`faster than none at C = 1 to 8 (1.36× at C = 1); not known against none at C = 32`; "" without intervals."""
    groups: dict[str, list[int]] = {told: [] for told in (*VERDICTS, NOT_KNOWN_AGAINST)}
    for c, p in zip(series.x, series.points, strict=True):
        if p is not None and p.low is not None and p.high is not None:
            groups[verdict(p) if known(p, TIMES) else NOT_KNOWN_AGAINST].append(c)
    parts = []
    for told, at in groups.items():
        if not at:
            continue
        extreme = _extreme(series, at, told)
        parts.append(f"{told} {baseline} at {places(at, series.x)}{extreme}")
    return "; ".join(parts)


def places(at: Sequence[int], grid: Sequence[int]) -> str:
    """`C = 1 to 8 and 32`: three and more neighbours on the grid are joined."""
    runs: list[list[int]] = []
    for c in at:
        if runs and grid.index(c) == grid.index(runs[-1][-1]) + 1:
            runs[-1].append(c)
        else:
            runs.append([c])
    texts = [t for r in runs for t in ([f"{r[0]} to {r[-1]}"] if len(r) > 2 else map(str, r))]
    return "C = " + (texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1])


def verdict(ratio: Interval) -> str:
    """One of `VERDICTS`; "not distinguishable from" where the interval (which must have ends) holds 1."""
    assert ratio.low is not None
    assert ratio.high is not None
    return VERDICTS[0] if ratio.low > 1 else VERDICTS[1] if ratio.high < 1 else VERDICTS[2]


def _worst(label: str, at: int, ratio: Interval) -> str:
    """The lowest envelope ratio (one of which something is known) with its interval and what that says."""
    where = f"At its worst (C = {at}), {label}"
    told = "" if ratio.low is None else f": {_ENVELOPE_VERDICTS[verdict(ratio)]}"
    return f"{where} reaches {interval_text(ratio, 3, f'{TIMES} of the envelope')}{told}"


def _extreme(series: Series, at: Sequence[int], told: str) -> str:
    """The strongest ratio of a group, e.g. ` (1.36× at C = 1)`; nothing where there is no difference to tell."""
    if told not in VERDICTS[:2]:
        return ""
    means = {c: p.mean for c, p in zip(series.x, series.points, strict=True) if c in at and p is not None}
    pick = max if told == VERDICTS[0] else min
    c = pick(means, key=means.__getitem__)
    return f" ({number(means[c])}×)" if len(at) == 1 else f" ({number(means[c])}× at C = {c})"


def _ms(interval: Interval) -> str:
    return f"{number(interval.mean)} ms" if known(interval) else f"a time {unknown(interval)}"
