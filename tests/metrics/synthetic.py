"""Made-up records for the metric tests; only what a test says differs from a plain one."""

from __future__ import annotations

from typing import Any

from specswitch.metrics.records import RequestRecord, StepRecord


def request(sent_s: float, end_s: float, times_s: tuple[float, ...] = (), **other: Any) -> RequestRecord:
    return RequestRecord(
        **{
            "request_id": 0,
            "scheduled_s": sent_s,
            "sent_s": sent_s,
            "end_s": end_s,
            "token_times_s": times_s,
            "prompt_tokens": 8,
            "completion_tokens": len(times_s),
            "finish_reason": "length",
            **other,
        }
    )


def plain_step(t_s: float, batch: int = 1, switched: bool = False) -> StepRecord:
    return StepRecord(t_s, batch, "plain", 0, 0, batch, 0, switched, None)


def verify_step(
    t_s: float, batch: int = 1, accepted: int = 0, drafts: int = 3, switched: bool = False
) -> StepRecord:
    return StepRecord(
        t_s, batch, "speculative", batch * drafts, accepted, accepted + batch, 0, switched, None
    )
