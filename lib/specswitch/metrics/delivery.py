"""Did the tokens reach the client as fast as the scheduler made them?

Between the two stand the engine's detokenizer and HTTP front end, and our client. Where these fall behind, a rate at
the client is theirs and says nothing about the steps: it shows at the end of a run, when the last token comes
long after the step that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specswitch.metrics.records import RequestRecord, StepRecord


def delivery(records: Sequence[RequestRecord], steps: Sequence[StepRecord]) -> dict[str, Any]:
    """How late the last token was, over the whole run.

    Returns:
        `delivery_lag_s`: seconds from the last step that made tokens to the arrival of the last token, at least 0;
        `delivery_lag_share`: the same over the time from the first token's arrival to the last one's. Both None
        without such steps or tokens, and where a request was ended early: its last tokens were not waited for.
    """
    arrivals = [t for r in records for t in (r.token_times_s[:1] + r.token_times_s[-1:])]
    made = [s.t_s for s in steps if s.emitted > 0]
    if not arrivals or not made or any(r.outcome == "cancelled" for r in records):
        return {"delivery_lag_s": None, "delivery_lag_share": None}
    first, last = min(arrivals), max(arrivals)
    lag = max(0.0, last - max(made))
    return {
        "delivery_lag_s": lag,
        "delivery_lag_share": min(1.0, lag / (last - first)) if last > first else None,
    }
