"""What one streamed answer has said so far: tokens with arrival times, the server's counts, how it ended.

Understands the server-sent events of SGLang's `/generate`. Tokens are counted by `completion_tokens`, which
is cumulative in every streaming mode; ids may come cumulative (the default) or as differences
(`--incremental-streaming-output`). Text is never re-tokenised, and an event without new tokens is no token.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

DATA = b"data:"
DONE = b"[DONE]"
EVENT_KEPT = 200


class EventSplitter:
    """Cuts a byte stream into the payloads of its `data:` events, however the bytes are fragmented."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Payloads of the events that `data` completes, without the `data:` prefix."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if event.startswith(DATA):
                yield event[len(DATA) :].strip()


@dataclass(slots=True)
class Answer:
    """Accumulates events. Times are CLOCK_MONOTONIC seconds; counts are the server's, None until told."""

    token_times_s: list[float] = field(default_factory=list)
    output_ids: list[int] = field(default_factory=list)
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    spec_verify_ct: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    done: bool = False

    def take(self, payload: bytes, t_s: float) -> None:
        """Account for one event that arrived at `t_s`. An in-band error or an abort sets `error`."""
        if payload == DONE:
            self.done = True
            return
        try:
            out = orjson.loads(payload)
        except orjson.JSONDecodeError as problem:
            self.error = f"not JSON in the stream: {problem}"
            return
        if "error" in out:
            self.error = f"server error: {_message(out['error'])}"
            return
        meta = out.get("meta_info", {})
        total = meta.get("completion_tokens")
        if total is None:
            self.error = f"an event without meta_info.completion_tokens: {payload[:EVENT_KEPT]!r}"
            return
        new = total - len(self.token_times_s)
        if new > 0:
            self.token_times_s.extend([t_s] * new)
        self._take_ids(out.get("output_ids") or [], total)
        finish = meta.get("finish_reason")
        if finish is not None:
            self._finish(finish, meta)

    def _take_ids(self, ids: list[int], total: int) -> None:
        if len(ids) == total:
            self.output_ids = ids
        else:
            self.output_ids.extend(ids)

    def _finish(self, finish: dict[str, Any], meta: dict[str, Any]) -> None:
        self.finish_reason = finish["type"]
        self.prompt_tokens = meta.get("prompt_tokens")
        self.cached_tokens = meta.get("cached_tokens")
        self.spec_verify_ct = meta.get("spec_verify_ct")
        if self.finish_reason == "abort":
            self.error = f"the server aborted the request: {finish.get('message')}"


def _message(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)
