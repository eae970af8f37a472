"""What a fake server answers: a list of timed steps, and the server-sent events they become.

The event format is the one of SGLang 0.5.12's `/generate`: `data: {"text", "output_ids", "meta_info"}`, where
text and ids are cumulative unless the server streams incrementally, and `completion_tokens` is always the
cumulative count. The stream ends with `data: [DONE]`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import orjson

Kind = Literal["chunk", "empty", "error", "abort", "cut", "end", "refuse"]
DONE = b"data: [DONE]\n\n"


class Step(NamedTuple):
    """One scripted event, `delay_ms` after the one before it (the first: after the request arrived).

    kind: `chunk` n tokens; `empty` an event without new tokens; `error` an in-band error; `abort` a finish
    reason of type abort; `cut` the connection is dropped; `end` a clean end of the body without finish
    reason and [DONE]; `refuse` HTTP 503 instead of a stream (as the first step only).
    """

    delay_ms: float
    n_tokens: int = 1
    text: str = ""
    kind: Kind = "chunk"


class Event(NamedTuple):
    """One event ready to send. `payload` is empty where the stream just breaks."""

    delay_ms: float
    payload: bytes
    kind: Kind


def parse_script(text: str) -> tuple[Step, ...]:
    """Script from JSON, a list of `[delay_ms, n_tokens, text, kind]`. Unknown kind: ValueError."""
    steps = tuple(Step(*row) for row in json.loads(text))
    for step in steps:
        if step.kind not in get_args(Kind):
            raise ValueError(f"unknown kind {step.kind!r}, one of {get_args(Kind)}")
    return steps


def plain_script(tokens: int, ttft_ms: float, itl_ms: float, tokens_per_chunk: int) -> tuple[Step, ...]:
    """An undisturbed answer of `tokens` tokens, `tokens_per_chunk` in each event, `itl_ms` per *token*."""
    sizes = [min(tokens_per_chunk, tokens - start) for start in range(0, tokens, tokens_per_chunk)]
    delays = [ttft_ms, *(itl_ms * n for n in sizes[1:])]
    return tuple(Step(delay, n, f" w{i}") for i, (delay, n) in enumerate(zip(delays, sizes, strict=True)))


def token_ids(text: str, n: int) -> list[int]:
    """Stable made-up ids of `n` tokens that read `text`: the same text gives the same ids."""
    return [(zlib.crc32(text.encode()) + j) % 50_000 for j in range(n)]


def build_events(
    steps: Sequence[Step], prompt_tokens: int, cached_tokens: int, incremental: bool = False
) -> tuple[Event, ...]:
    """The events of one answer. The last `chunk`/`empty` step carries the finish reason."""
    events: list[Event] = []
    ids: list[int] = []
    text = ""
    breaks = any(s.kind in ("error", "cut", "end", "refuse", "abort") for s in steps)
    for i, step in enumerate(steps):
        if step.kind in ("cut", "end", "refuse"):
            events.append(Event(step.delay_ms, b"", step.kind))
            continue
        if step.kind == "error":
            out: dict[str, Any] = {"error": {"message": step.text or "scripted error"}}
        else:
            new = token_ids(step.text, step.n_tokens if step.kind == "chunk" else 0)
            ids, text = ids + new, text + step.text
            finish: dict[str, Any] | None = None
            if step.kind == "abort":
                finish = {"type": "abort", "message": step.text or "scripted abort"}
            elif i == len(steps) - 1 and not breaks:
                finish = {"type": "length", "length": len(ids)}
            out = {
                "text": step.text if incremental else text,
                "output_ids": new if incremental else ids,
                "meta_info": {
                    "id": "0" * 32,
                    "finish_reason": finish,
                    "prompt_tokens": prompt_tokens,
                    "weight_version": "default",
                    "num_retractions": 0,
                    "reasoning_tokens": 0,
                    "completion_tokens": len(ids),
                    "cached_tokens": cached_tokens,
                },
            }
        events.append(Event(step.delay_ms, b"data: " + orjson.dumps(out) + b"\n\n", step.kind))
    return tuple(events)


def aborted(before: Event | None) -> bytes:
    """The last event of a request that was aborted after the event `before` (None: before its first token)."""
    if before is None:
        out: dict[str, Any] = {"text": "", "output_ids": [], "meta_info": {"completion_tokens": 0}}
    else:
        out = orjson.loads(before.payload.removeprefix(b"data: "))
    out["meta_info"]["finish_reason"] = {"type": "abort", "message": "Aborted"}
    return b"data: " + orjson.dumps(out) + b"\n\n"
