"""The typed records that a measurement is made of. Times are seconds on CLOCK_MONOTONIC of this host.

`RequestRecord` is what the client saw of one request; `StepRecord` is what the engine did in one decode
step. Everything plotted is computed from these two by the pure functions beside this file. A value that
does not exist is None, never 0, 1.0 or NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["ok", "failed", "cancelled"]
Mode = Literal["plain", "speculative"]


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One streamed request as the client saw it.

    `scheduled_s`: when the load wanted to send it; `sent_s`: when it was sent (the difference is the
    client's queue delay). `token_times_s`: arrival time of every output token, in order; k tokens in one
    chunk are k entries with one time. `completion_tokens`, `prompt_tokens`, `cached_tokens`: the server's
    counts. `spec_verify_ct`: verify steps of this request as the engine counts them. `warmup`: sent
    before the measured part. `cancelled` is our own doing (end of the point), `failed` is not.
    """

    request_id: int
    scheduled_s: float
    sent_s: float
    end_s: float
    token_times_s: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    spec_verify_ct: int | None = None
    finish_reason: str | None = None
    outcome: Outcome = "ok"
    error: str | None = None
    warmup: bool = False
    output_ids: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One decode step as the engine did it.

    `t_s`: CLOCK_MONOTONIC seconds when the step's result was known. `batch`: decode requests in the step, those
    included that had ended before (the overlap scheduler notices one step late, and throws their tokens away).
    `mode`: "plain" (one target token per request) or "speculative" (draft + verify). `proposed`,
    `accepted`: draft tokens over the batch, 0 in plain steps. `emitted`: tokens produced, bonus included.
    `synced`: plain-step tokens brought into the draft KV cache in this step. `switched`: the mode differs
    from the step before. `step_ms`: milliseconds since the previous step's result (None for the first one
    after an idle phase).
    """

    t_s: float
    batch: int
    mode: Mode
    proposed: int
    accepted: int
    emitted: int
    synced: int
    switched: bool
    step_ms: float | None

    @property
    def live(self) -> int:
        """Requests that got tokens: each emits what it accepted and one more."""
        return self.emitted - self.accepted
