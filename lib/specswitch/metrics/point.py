"""The measured half of a stored point: every number of one run, from its records, in one dictionary.

Keys as in the contract for `point.json`. Latencies are `{"mean", "p50", "p90", "p99"}` in milliseconds. A
number that does not exist is None. Each rate's numerator and denominator stand under `ratios`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from specswitch.metrics import acceptance, degeneracy, latency, throughput
from specswitch.metrics.delivery import delivery
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.metrics.window import Window, in_flight_max

ERRORS_KEPT = 5


def point_metrics(
    records: Sequence[RequestRecord],
    steps: Sequence[StepRecord],
    window: Window | None,
    *,
    closed_batch: bool = False,
) -> dict[str, Any]:
    """All metrics of one point.

    `window` is the steady window (seconds, CLOCK_MONOTONIC), None when none was reached: then every windowed
    number is None and `steady` is False. `steps` may be empty (a server without our counters). Counts of
    requests, errors and tokens are over the whole run; everything else is inside the window. Only in a closed batch,
    where hardly a request begins or ends inside, what there is one of per request is over every request.
    """
    inside = acceptance.steps_in(steps, window) if window else []
    counted: Sequence[RequestRecord] = records if window else ()
    of_requests = None if closed_batch else window
    ratios = {
        "accept_length": acceptance.accept_length(inside),
        "accept_rate": acceptance.accept_rate(inside),
        "speculated_share": acceptance.speculated_steps(inside),
        "speculated_share_tokens": acceptance.speculated_tokens(inside),
        "speculated_share_whole_run": acceptance.speculated_steps(steps),
        "repeat_4gram_share": degeneracy.repeat_share(records),
    }
    return {
        "steady": window is not None,
        "window_s": window.length_s if window else None,
        "output_tok_s": throughput.output_throughput(records, window),
        "output_tok_s_peak": throughput.peak_throughput(records, window),
        "output_tok_s_whole_run": throughput.whole_run_throughput(records),
        "ttft_ms": latency.summary(latency.ttft_ms(counted, of_requests)),
        "itl_ms": latency.summary(latency.itl_ms(counted, window)),
        "tpot_ms": latency.summary(latency.tpot_ms(counted, of_requests)),
        "e2e_ms": latency.summary(latency.e2e_ms(counted, of_requests)),
        "queue_delay_ms": latency.summary(latency.queue_delay_ms(counted, of_requests)),
        **{name: ratio.value for name, ratio in ratios.items()},
        "ratios": {name: ratio.as_dict() for name, ratio in ratios.items()},
        "switches": acceptance.switches(inside),
        "max_running_observed": acceptance.max_running(inside),
        "mean_running_observed": acceptance.mean_running(inside),
        "in_flight_max": in_flight_max(records),
        **delivery(records, steps),
        "degenerate": degeneracy.is_degenerate(ratios["repeat_4gram_share"]),
        **request_counts(records),
        "measured_requests": len(latency.ended_in(counted, of_requests)),
    }


def request_counts(records: Sequence[RequestRecord]) -> dict[str, Any]:
    """Whole-run counts: outcomes, the most frequent errors, tokens by the server's own count, lengths."""
    outcomes = Counter(r.outcome for r in records)
    errors = Counter(r.error or "unknown" for r in records if r.outcome == "failed")
    done = [r for r in records if r.outcome == "ok"]
    return {
        "completed": outcomes["ok"],
        "failed": outcomes["failed"],
        "cancelled": outcomes["cancelled"],
        "errors": dict(errors.most_common(ERRORS_KEPT)),
        "output_tokens": _total(r.completion_tokens for r in records),
        "cached_tokens": _total(r.cached_tokens for r in records),
        "prompt_lengths": _spread([r.prompt_tokens for r in done if r.prompt_tokens is not None]),
        "output_lengths": _spread([r.completion_tokens for r in done if r.completion_tokens is not None]),
    }


def _total(counts: Iterable[int | None]) -> int | None:
    """Sum of the counts that exist; None when none does."""
    known = [n for n in counts if n is not None]
    return sum(known) if known else None


def _spread(lengths: Sequence[int]) -> dict[str, float | None]:
    """`{"min", "mean", "max"}` of the real lengths."""
    if not lengths:
        return {"min": None, "mean": None, "max": None}
    return {"min": min(lengths), "mean": sum(lengths) / len(lengths), "max": max(lengths)}
