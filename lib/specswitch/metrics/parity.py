"""Admission parity: did the arms that are compared at one concurrency really run the same batch?

An arm that was capped (by a default limit on running requests, say) queues where the others run, and wins or
loses for a reason that has nothing to do with speculation. A request or so too few has another cause: one that
ended is replaced only after a prefill, and a short steady window may hold no decode step of the full batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PARITY_SHARE = 0.95
# Short of the others by no more than this share of their batch, or by one request: hardly a cap, but a short window.
NEARLY_SHARE = 0.1
CAPPED = (
    "requests waited or were pushed out: give every arm the same --max-running-requests and enough KV memory"
)
NEARLY = (
    "so near, this is less likely a cap than a steady window in which no step held the whole batch, as a request that "
    "ends is replaced only after a prefill: measure longer (window_s; in closed batches, output_tokens)"
)


@dataclass(frozen=True, slots=True)
class Parity:
    """Outcome at one concurrency. `ok` is None when fewer than two arms report a running batch."""

    concurrency: int
    ok: bool | None
    observed: Mapping[str, int | None]
    message: str


def admission_parity(
    concurrency: int, observed: Mapping[str, int | None], share: float = PARITY_SHARE
) -> Parity:
    """Compare the largest running batch of each arm (`observed`: arm label -> batch) at one concurrency.

    Not ok when an arm's largest batch is below `share` of the largest one among the arms.
    """
    known = {arm: batch for arm, batch in observed.items() if batch is not None}
    if len(known) < 2:
        return Parity(concurrency, None, observed, f"C={concurrency}: fewer than two arms to compare")
    most = max(known.values())
    low = {arm: batch for arm, batch in known.items() if batch < share * most}
    if low:
        text = ", ".join(f"{arm} ran at most {batch}" for arm, batch in low.items())
        least = min(low.values())
        nearly = least > most / 2 and least >= most - max(1, NEARLY_SHARE * most)
        return Parity(
            concurrency,
            False,
            observed,
            f"C={concurrency}: {text} while another arm ran {most}: {NEARLY if nearly else CAPPED}",
        )
    return Parity(concurrency, True, observed, f"C={concurrency}: all arms ran up to {most}")
