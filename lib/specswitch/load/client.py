"""One streamed `/generate` request, from prompt ids to a `RequestRecord`.

A request is `ok` only if the whole promise was kept: the stream ended by itself with a finish reason and
[DONE], the server counted the prompt tokens that were sent, and with `ignore_eos` it made every token that
was asked for. Anything else is `failed` with a reason; what we cut off ourselves is `cancelled`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import aiohttp
import orjson

from specswitch.load.answer import Answer, EventSplitter
from specswitch.metrics.records import Outcome, RequestRecord

BODY_KEPT = 300
# An idle connection is dropped by us before the server drops it (uvicorn: after 5 s): a request on its way while the
# server closes the connection would be lost, and count as failed.
IDLE_CONNECTION_S = 2.0


def auth_headers(api_key: str | None) -> dict[str, str]:
    """The header that a server started with --api-key asks for; empty without a key."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """What is sent. `scheduled_s` (CLOCK_MONOTONIC): when the load wanted to send it.

    `rid`: the server's name of the request, needed to abort it; None lets the server choose. None may be the
    beginning of another: the engine aborts every request whose name begins so.
    """

    request_id: int
    input_ids: tuple[int, ...]
    output_tokens: int
    scheduled_s: float
    ignore_eos: bool = True
    temperature: float = 0.0
    warmup: bool = False
    rid: str | None = None

    def body(self) -> bytes:
        """The JSON body for SGLang's `/generate`."""
        body = {
            "input_ids": self.input_ids,
            "sampling_params": {
                "max_new_tokens": self.output_tokens,
                "temperature": self.temperature,
                "ignore_eos": self.ignore_eos,
            },
            "stream": True,
        }
        return orjson.dumps(body if self.rid is None else {**body, "rid": self.rid})


class GenerateClient:
    """Streams any number of requests at once to one server. Use as an async context manager.

    `url`: base URL of the server. `request_timeout_s`: a request that takes longer is failed. `api_key`: if the
    server wants one. Connections are unlimited and no proxy is used: what limits the load is the load, never
    the client.
    """

    def __init__(self, url: str, request_timeout_s: float, api_key: str | None = None) -> None:
        self._headers = {"Content-Type": "application/json", **auth_headers(api_key)}
        self._endpoint = url.rstrip("/") + "/generate"
        self._abort_endpoint = url.rstrip("/") + "/abort_request"
        self._timeout_s = request_timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> GenerateClient:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=IDLE_CONNECTION_S),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers=self._headers,
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def generate(
        self, request: GenerateRequest, on_record: Callable[[RequestRecord], Any]
    ) -> RequestRecord:
        """Send one request and follow its stream to the end.

        Returns the record, after giving it to `on_record`. When the task is cancelled, `on_record` still gets
        the record of what had arrived (outcome `cancelled`), and the cancellation goes on.
        """
        answer = Answer()
        sent_s = time.monotonic()
        try:
            await self._follow(request, answer)
        except asyncio.CancelledError:
            on_record(_record(request, answer, sent_s, "cancelled", None))
            raise
        except TimeoutError:
            answer.error = f"not finished within {self._timeout_s:g} s"
        except (aiohttp.ClientError, OSError) as problem:
            answer.error = f"{type(problem).__name__}: {problem}"
        error = answer.error or broken_promise(request, answer)
        record = _record(request, answer, sent_s, "failed" if error else "ok", error)
        on_record(record)
        return record

    async def abort(self, request: GenerateRequest) -> None:
        """Ask the server to abort a request that was sent with a `rid`; its stream then ends by itself.

        A request that is over already is left alone. Raises ValueError without a `rid`; aiohttp.ClientError.
        """
        if request.rid is None:
            raise ValueError("a request without a rid cannot be aborted: give it one")
        if self._session is None:
            raise RuntimeError("use GenerateClient in an `async with` block")
        async with self._session.post(self._abort_endpoint, json={"rid": request.rid}) as response:
            response.raise_for_status()

    async def _follow(self, request: GenerateRequest, answer: Answer) -> None:
        if self._session is None:
            raise RuntimeError("use GenerateClient in an `async with` block")
        splitter = EventSplitter()
        async with self._session.post(self._endpoint, data=request.body()) as response:
            if response.status != 200:
                text = (await response.text(errors="replace"))[:BODY_KEPT]
                answer.error = f"HTTP {response.status}: {text}"
                return
            async for data in response.content.iter_any():
                now_s = time.monotonic()
                for payload in splitter.feed(data):
                    answer.take(payload, now_s)


def broken_promise(request: GenerateRequest, answer: Answer) -> str | None:
    """Why a stream that ended without an error still is no valid answer; None when it is one."""
    if answer.finish_reason is None or not answer.done:
        return f"stream cut after {len(answer.token_times_s)} tokens, without finish reason and [DONE]"
    planned, counted = len(request.input_ids), answer.prompt_tokens
    if counted != planned:
        return f"the server counted {counted} prompt tokens, {planned} were sent"
    made = len(answer.token_times_s)
    if request.ignore_eos and made != request.output_tokens:
        return f"{made} tokens instead of {request.output_tokens} in spite of ignore_eos"
    return None


def _record(
    request: GenerateRequest, answer: Answer, sent_s: float, outcome: Outcome, error: str | None
) -> RequestRecord:
    return RequestRecord(
        request_id=request.request_id,
        scheduled_s=request.scheduled_s,
        sent_s=sent_s,
        end_s=time.monotonic(),
        token_times_s=tuple(answer.token_times_s),
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=len(answer.token_times_s),
        cached_tokens=answer.cached_tokens,
        spec_verify_ct=answer.spec_verify_ct,
        finish_reason=answer.finish_reason,
        outcome=outcome,
        error=error,
        warmup=request.warmup,
        output_ids=tuple(answer.output_ids),
    )
