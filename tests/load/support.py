"""What the load tests share: a record of one scripted request, and a source of made-up prompts."""

from __future__ import annotations

import time
from typing import Any

from fakes.fake_server import Behaviour, FakeServer, serving
from fakes.script import Step
from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.metrics.records import RequestRecord


class NumberedPrompts:
    """Prompt i is `length` consecutive numbers that no other prompt starts with."""

    def __init__(self, length: int = 8) -> None:
        self.length = length

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return tuple(range(index * self.length, (index + 1) * self.length))


def request_of(tokens: int, **other: Any) -> GenerateRequest:
    return GenerateRequest(
        **{
            "request_id": 0,
            "input_ids": tuple(range(8)),
            "output_tokens": tokens,
            "scheduled_s": time.monotonic(),
            **other,
        }
    )


async def one_record(script: list[Step], timeout_s: float = 30.0, **behaviour: Any) -> RequestRecord:
    """The record of one request to a fake server that plays `script`."""
    return (await record_and_send_times(script, timeout_s, **behaviour))[0]


async def record_and_send_times(
    script: list[Step], timeout_s: float = 30.0, **behaviour: Any
) -> tuple[RequestRecord, list[float]]:
    """The record of one request, and when the fake server sent each event (monotonic seconds)."""
    tokens = sum(step.n_tokens for step in script if step.kind == "chunk")
    server = FakeServer(Behaviour(script=tuple(script), **behaviour))
    async with serving(server) as url, GenerateClient(url, timeout_s) as client:
        return await client.generate(request_of(tokens), lambda _: None), server.stats.sent_s
