"""Outputs against the plain server's: equal, ended early, parted."""

from __future__ import annotations

import asyncio

import pytest

from fakes.fake_server import Behaviour, FakeServer, serving
from fakes.script import Step
from load.support import request_of
from specswitch.load.client import GenerateClient
from specswitch.metrics.near_ties import NEAR
from specswitch.soak import identity
from specswitch.soak.asks import Ask
from specswitch.soak.identity import Judged, NoReferenceError, differing
from specswitch.soak.load import Kept


def kept(number: int, ids: tuple[int, ...], complete: bool = True) -> Kept:
    return Kept(Ask(number, tuple(range(8)), 6, 0.0, True, None, 0.5, True), ids, complete)


async def differing_of(url: str, outputs: list[Kept]) -> list[Judged]:
    return await asyncio.to_thread(differing, url, outputs, 10, near=NEAR)


async def plain_ids(url: str) -> tuple[int, ...]:
    async with GenerateClient(url, 10) as client:
        return (await client.generate(request_of(6), lambda _: None)).output_ids


async def test_equal_outputs_and_beginnings_of_ended_ones_do_not_differ():
    async with serving(FakeServer(Behaviour())) as url:
        ids = await plain_ids(url)
        assert len(ids) == 6
        assert await differing_of(url, [kept(1, ids), kept(2, ids[:3], complete=False)]) == []


@pytest.mark.parametrize(("gap", "kind"), [(0.05, "near-tie"), (1.5, "different")])
async def test_a_parted_output_is_judged_by_the_gap(monkeypatch: pytest.MonkeyPatch, gap: float, kind: str):
    monkeypatch.setattr(identity, "score", lambda url, prompt, ids, *_: ([-gap] * len(ids), [0.0] * len(ids)))
    async with serving(FakeServer(Behaviour())) as url:
        ids = await plain_ids(url)
        found = await differing_of(url, [kept(1, ids), kept(7, (*ids[:2], 9, *ids[3:])), kept(8, ids[:3])])
    assert [(f.number, f.verdict.kind, f.verdict.first_divergence) for f in found] == [
        (7, kind, 2),
        (8, "different", 3),  # ended by itself where the plain server went on
    ]
    assert f"request 7: {kind} from token 2" in str(found[0])


async def test_a_plain_server_that_does_not_answer_is_an_error_not_a_difference():
    async with serving(FakeServer(Behaviour(script=(Step(0, kind="refuse"),)))) as url:
        with pytest.raises(NoReferenceError, match="request 5"):
            await differing_of(url, [kept(5, (1, 2))])


@pytest.mark.parametrize("own", [float("nan"), None])
async def test_a_plain_server_whose_logprobs_are_no_numbers_is_an_error_with_a_cure(
    monkeypatch: pytest.MonkeyPatch, own: float | None
):
    monkeypatch.setattr(
        identity,
        "score",
        lambda url, prompt, ids, *_: ([-1.0] * len(ids), [identity._number(own)] * len(ids)),
    )
    async with serving(FakeServer(Behaviour())) as url:
        with pytest.raises(NoReferenceError, match=r"request 7: a logprob is NaN.*another dtype"):
            await differing_of(url, [kept(7, (9, 9, 9, 9, 9, 9))])


async def test_a_server_without_logprobs_is_an_error():
    async with serving(FakeServer(Behaviour())) as url:
        with pytest.raises(NoReferenceError, match="no logprobs"):
            await asyncio.to_thread(identity.score, url, [1, 2], [3, 4], 10)
