"""A wave: a number of requests sent at once and run to their end, none replaced, so that the batch stands still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.load.own_loop import run_in_own_loop
from specswitch.metrics.records import RequestRecord


def run_wave(
    url: str,
    prompts: Sequence[Sequence[int]],
    output_tokens: int,
    *,
    timeout_s: float,
    temperature: float = 0.0,
    api_key: str | None = None,
) -> list[RequestRecord]:
    """Send every prompt at once, wait for every answer of exactly `output_tokens` tokens; records in order."""

    async def send() -> list[RequestRecord]:
        async with GenerateClient(url, timeout_s, api_key) as client:
            now = time.monotonic()
            requests = [
                GenerateRequest(i, tuple(ids), output_tokens, now, temperature=temperature)
                for i, ids in enumerate(prompts)
            ]
            return await asyncio.gather(*(client.generate(r, lambda _: None) for r in requests))

    return run_in_own_loop(send)
