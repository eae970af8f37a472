"""Goodput: what was served within a stated limit on TTFT and on TPOT, per second of the steady window.

A limit is a choice of whoever reads the numbers, not a part of the measurement: goodput is computed from the
stored requests, and the same run can be judged again under another limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from specswitch.metrics import latency
from specswitch.metrics.ratio import Ratio
from specswitch.metrics.records import RequestRecord
from specswitch.metrics.window import Window


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest TTFT and TPOT of a good request, milliseconds; None: not asked. Raises ValueError unless > 0."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("ttft_limit_ms", self.ttft_ms), ("tpot_limit_ms", self.tpot_ms)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name}={value:g}: give milliseconds > 0, or none")

    @property
    def asked(self) -> bool:
        """Whether there is any limit."""
        return self.ttft_ms is not None or self.tpot_ms is not None

    @property
    def text(self) -> str:
        """`TTFT <= 200 ms and TPOT <= 20 ms`."""
        named = (("TTFT", self.ttft_ms), ("TPOT", self.tpot_ms))
        return " and ".join(f"{name} ≤ {value:g} ms" for name, value in named if value is not None)


def is_good(record: RequestRecord, limits: Limits) -> bool:
    """Whether the request was completed and met every limit asked for.

    TTFT and TPOT as in `latency`. A request of one token has no TPOT, so no TPOT limit holds it up.
    """
    if record.outcome != "ok":
        return False
    pairs = (
        (latency.ttft_ms([record]), limits.ttft_ms),
        (latency.tpot_ms([record]), limits.tpot_ms),
    )
    return all(limit is None or value <= limit for values, limit in pairs for value in values)


def good_requests(records: Sequence[RequestRecord], window: Window, limits: Limits) -> Ratio:
    """Good requests / all requests that ended inside the window; failed ones count as not good.

    Requests that we cut off ourselves (`cancelled`) are in neither.
    """
    ended = [r for r in records if r.outcome != "cancelled" and window.holds(r.end_s)]
    return Ratio(sum(is_good(r, limits) for r in ended), len(ended))


def good_tokens(records: Sequence[RequestRecord], window: Window, limits: Limits) -> Ratio:
    """Output tokens that arrived inside the window: those of good requests / all.

    A request is judged as a whole, also where a part of it lies outside the window.
    """
    arrived = [(r, sum(map(window.holds, r.token_times_s))) for r in records]
    return Ratio(sum(n for r, n in arrived if is_good(r, limits)), sum(n for _, n in arrived))


def goodput(records: Sequence[RequestRecord], window: Window | None, limits: Limits) -> dict[str, Any]:
    """Columns of one point: good requests and tokens per second, and of how many.

    `goodput_req_s`, `goodput_tok_s`: per second of window. `goodput_requests`, `goodput_tokens`: the share that
    was good, with `_num` and `_den` (counts). Every value is None without a window.
    """
    if window is None or window.length_s <= 0:
        names = ("goodput_req_s", "goodput_tok_s", "goodput_requests", "goodput_tokens")
        return dict.fromkeys(names)
    requests, tokens = good_requests(records, window, limits), good_tokens(records, window, limits)
    return {
        "goodput_req_s": requests.num / window.length_s,
        "goodput_tok_s": tokens.num / window.length_s,
        **_share("goodput_requests", requests),
        **_share("goodput_tokens", tokens),
    }


def _share(name: str, ratio: Ratio) -> dict[str, Any]:
    return {name: ratio.value, f"{name}_num": ratio.num, f"{name}_den": ratio.den}
