"""Do a soaked server's greedy outputs equal those of a plain server, token by token?

Where they part, the plain server says how much worse each token was than its own choice: less than a small gap is
a near-tie (the kernels of half precision differ with the batch's shape), more is a fault.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from specswitch.load.client import GenerateClient, GenerateRequest, auth_headers
from specswitch.load.own_loop import run_in_own_loop
from specswitch.metrics.near_ties import Verdict, compare
from specswitch.soak.asks import Ask
from specswitch.soak.load import Kept

AT_ONCE = 8


class NoReferenceError(RuntimeError):
    """The plain server did not answer, or not with what was asked."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One output that is not the plain server's. `at`: the first token that differs."""

    number: int
    verdict: Verdict

    def __str__(self) -> str:
        v = self.verdict
        return f"request {self.number}: {v.kind} from token {v.first_divergence}, widest gap {v.widest_gap:.3g} nats"


def differing(
    url: str, kept: Sequence[Kept], timeout_s: float, *, near: float, api_key: str | None = None
) -> list[Judged]:
    """Ask the plain server at `url` the same again; the outputs that differ, each with a verdict.

    An output that was ended early need only be the beginning of the plain server's. near: largest gap of a
    near-tie, in nats (`metrics.near_ties.near_of`). api_key: the server's, if it has one.

    Raises:
        NoReferenceError: the plain server failed, or its logprobs are no numbers.
    """
    references = run_in_own_loop(lambda: _answers(url, [k.ask for k in kept], timeout_s, api_key))
    found = []
    for one, whole in zip(kept, references, strict=True):
        reference = whole if one.complete else whole[: len(one.ids)]
        if one.ids != reference:
            own, best = score(url, one.ask.input_ids, one.ids, timeout_s, api_key)
            try:
                found.append(Judged(one.ask.number, compare(one.ids, reference, own, best, near)))
            except ValueError as problem:
                raise NoReferenceError(
                    f"{url} cannot judge request {one.ask.number}: {problem}; soak with another dtype or "
                    "attention_backend"
                ) from problem
    return found


def score(
    url: str, prompt: Sequence[int], produced: Sequence[int], timeout_s: float, api_key: str | None = None
) -> tuple[list[float], list[float]]:
    """The server's logprob of each produced token, given those before it, and the largest logprob there (nats).

    Raises:
        NoReferenceError: no answer, or not one entry per token. A logprob may be NaN.
    """
    body = {
        "input_ids": [*prompt, *produced],
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 1},
        "return_logprob": True,
        "logprob_start_len": len(prompt) - 1,  # the first entry has no logprob
        "top_logprobs_num": 1,
    }
    try:
        answer = httpx.post(
            f"{url}/generate", json=body, timeout=timeout_s, trust_env=False, headers=auth_headers(api_key)
        )
        meta: dict[str, Any] = answer.raise_for_status().json()["meta_info"]
        own, best = meta["input_token_logprobs"][1:], meta["input_top_logprobs"][1:]
    except (httpx.HTTPError, ValueError, KeyError) as problem:
        raise NoReferenceError(f"{url} gave no logprobs: {type(problem).__name__}: {problem}") from problem
    if [entry[1] for entry in own] != list(produced):
        raise NoReferenceError(f"{url} gave logprobs of {len(own)} tokens, asked were {len(produced)} others")
    return [_number(entry[0]) for entry in own], [_number(top[0][0]) for top in best]


def _number(logprob: float | None) -> float:
    """The server writes a NaN as null."""
    return math.nan if logprob is None else logprob


async def _answers(
    url: str, asks: Sequence[Ask], timeout_s: float, api_key: str | None
) -> list[tuple[int, ...]]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def answer(client: GenerateClient, ask: Ask) -> tuple[int, ...]:
        async with turns:
            request = GenerateRequest(
                ask.number, ask.input_ids, ask.output_tokens, time.monotonic(), ask.ignore_eos
            )
            record = await client.generate(request, lambda _: None)
        if record.outcome != "ok":
            raise NoReferenceError(f"{url} did not answer request {ask.number}: {record.error}")
        return record.output_ids

    async with GenerateClient(url, timeout_s, api_key) as client:
        return await asyncio.gather(*(answer(client, ask) for ask in asks))
