"""What makes a point's numbers doubtful, in a few words each, from the row of the point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from specswitch.plots.grid import exists

# A client that keeps its core this busy may be what limits the throughput.
BUSY_CLIENT_SHARE = 0.9
# Two texts may well begin with the same token; this share of all prompt tokens says more than that.
WARM_SHARE = 0.01
# Repeats of one arm at one load that differ by more than this factor were not measured on the same machine.
REPEATS_FACTOR = 1.5
_RATES = ("output_tok_s", "output_tok_s_load")
# A client that sends this much later than it wanted to does not make the load that it was asked for.
LATE_MS = 20.0
# Tokens that come this part of the run after they were made: what was measured is their way to the client.
LATE_DELIVERY_SHARE = 0.02

MEANINGS = {
    "no steady window": "the load never became steady, so there are no windowed numbers",
    "repetitive text": "half or more of the generated 4-grams repeat, which makes drafting too easy: "
    "read nothing into the acceptance",
    "warm cache": f"over {WARM_SHARE:.0%} of the prompt tokens came from the prefix cache",
    "busy client": f"the client used over {BUSY_CLIENT_SHARE:.0%} of a core and may have been the limit",
    "late client": f"one request in a hundred was sent over {LATE_MS:g} ms after it was due",
    "late delivery": f"the last token came over {LATE_DELIVERY_SHARE:.0%} of the run after the step that "
    "made it, so the engine's front end or the client was the limit; --stream-interval 8 spares both",
}


def flags(row: Mapping[str, object]) -> list[str]:
    """The flags of one finished point; empty when there is nothing to say."""
    found = {
        "no steady window": _is(row, "steady", False),
        "repetitive text": _is(row, "degenerate", True) and not _is(row, "synthetic", True),
        "warm cache": _number(row, "cached_tokens")
        > WARM_SHARE * _number(row, "prompt_tokens") * _number(row, "completed"),
        "busy client": _number(row, "client_cpu_share") > BUSY_CLIENT_SHARE,
        "late client": max(_number(row, f"queue_delay_ms_{part}") for part in ("p99", "whole_run_p99"))
        > LATE_MS,
        "late delivery": _number(row, "delivery_lag_share") > LATE_DELIVERY_SHARE,
    }
    return [name for name, holds in found.items() if holds]


def warnings(points: pd.DataFrame) -> list[str]:
    """One sentence per flag that any point has, with how many have it."""
    counts = Counter(flag for row in points.to_dict("records") for flag in flags(row))
    return [
        f"Flagged {flag} ({counts[flag]} of {len(points)} points): {meaning}."
        for flag, meaning in MEANINGS.items()
        if counts[flag]
    ]


def unequal_repeats(points: pd.DataFrame) -> list[str]:
    """One sentence if repeats of the same arm and load differ by more than `REPEATS_FACTOR`, naming the worst.

    Drift that hits all arms alike cancels in paired ratios; a neighbour that comes and goes does not.
    """
    rate = next((c for c in _RATES if c in points.columns and points[c].notna().any()), None)
    if rate is None:
        return []
    by = ["label", "concurrency"] if points["concurrency"].notna().any() else ["label"]
    groups = points[points[rate] > 0].groupby(by, sort=False)[rate]
    factor = (groups.max() / groups.min())[groups.count() > 1]
    bad = factor[factor > REPEATS_FACTOR]
    if bad.empty:
        return []
    worst: object = bad.idxmax()
    where = f"{worst[0]} at C = {worst[1]}" if isinstance(worst, tuple) else str(worst)
    return [
        f"Not a quiet machine: repeats of the same arm and load differ by up to {bad.max():.1f}× ({where}; "
        f"{len(bad)} of {len(factor)} beyond {REPEATS_FACTOR}×). Differences between arms may be the machine's: "
        "measure again with nothing else running, or with more repeats."
    ]


def _is(row: Mapping[str, object], key: str, wanted: bool) -> bool:
    return exists(row.get(key)) and bool(row[key]) is wanted


def _number(row: Mapping[str, object], key: str) -> float:
    return float(str(row[key])) if exists(row.get(key)) else 0.0
