"""Is the generated text worth measuring acceptance on?

A model that repeats itself is easy to draft for: acceptance measured on loops says nothing about real text.
The share of repeated 4-grams shows it from token ids alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specswitch.metrics.ratio import Ratio, pooled
from specswitch.metrics.records import RequestRecord

NGRAM = 4
# Half of all 4-grams said before in the same answer: ordinary prose and code stay far below.
DEGENERATE_SHARE = 0.5


def repeated_ngrams(ids: Sequence[int], n: int = NGRAM) -> Ratio:
    """n-grams that occurred before in the same sequence / all n-grams of it."""
    total = max(0, len(ids) - n + 1)
    distinct = len({tuple(ids[i : i + n]) for i in range(total)})
    return Ratio(total - distinct, total)


def repeat_share(records: Iterable[RequestRecord]) -> Ratio:
    """Repeated 4-grams / all 4-grams, pooled over completed requests (each looked at by itself)."""
    return pooled(repeated_ngrams(r.output_ids) for r in records if r.outcome == "ok")


def is_degenerate(share: Ratio, limit: float = DEGENERATE_SHARE) -> bool | None:
    """Whether the text loops too much for its acceptance to mean anything; None when there is no text."""
    return None if share.value is None else share.value > limit
