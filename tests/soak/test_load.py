"""The load of a soak against scripted servers: counts, early ends, giving up."""

from __future__ import annotations

import time

import pytest

from fakes.fake_server import Behaviour, FakeServer, serving
from fakes.script import Step
from load.support import NumberedPrompts
from specswitch.soak.asks import Asks, Mix
from specswitch.soak.load import MOST_FAILURES, SoakLoad
from specswitch.soak.unrest import Tide

MANY_ENDED = Mix(longest_prompt=8, longest_output=16, aborted=0.5, compared=1.0)


def load_of(url: str, mix: Mix = MANY_ENDED) -> SoakLoad:
    return SoakLoad(url, Asks(NumberedPrompts(), mix, seed=1), Tide(4, 12, seed=1), 10, "test")


async def test_every_request_is_counted_once_and_some_end_early():
    server = FakeServer(Behaviour(ttft_ms=20, itl_ms=8))
    async with serving(server) as url:
        tally = await load_of(url).run(requests=300, seconds=60)
    assert (tally.ended, tally.sent, tally.over, tally.failed) == ("requests", 300, 300, 0), tally.errors
    assert tally.finished > 100
    assert min(tally.hung_up, tally.aborted) >= 10
    assert sum(kind == "abort" for kind, _ in server.stats.events) >= tally.aborted
    assert 5 <= server.stats.in_flight_max <= 12
    assert server.stats.in_flight == 0


async def test_outputs_are_kept_as_far_as_they_came():
    async with serving(FakeServer(Behaviour(ttft_ms=20, itl_ms=8))) as url:
        tally = await load_of(url).run(requests=300, seconds=60)
    assert all(k.ask.compared for k in tally.kept)
    assert all(len(k.ids) == k.ask.output_tokens for k in tally.kept if k.complete)
    cut = [k for k in tally.kept if not k.complete]
    assert cut
    assert all(0 < len(k.ids) <= k.ask.output_tokens for k in cut)
    assert all(k.ask.abort is not None for k in cut)


async def test_the_time_ends_it_and_what_runs_is_drained():
    async with serving(FakeServer(Behaviour())) as url:
        started_s = time.monotonic()
        tally = await load_of(url).run(requests=10**6, seconds=0.5)
    assert tally.ended == "time"
    assert 0.5 <= tally.seconds <= time.monotonic() - started_s
    assert tally.over == tally.sent > 10


async def test_it_gives_up_when_requests_fail():
    async with serving(FakeServer(Behaviour(script=(Step(1, kind="refuse"),)))) as url:
        tally = await load_of(url).run(requests=10**6, seconds=60)
    assert tally.ended == "failures"
    assert MOST_FAILURES <= tally.failed <= MOST_FAILURES + 12
    assert "HTTP 503" in tally.errors[0]


async def test_an_abort_that_nobody_asked_for_is_a_failure():
    script = (Step(1, 1), Step(1, 0, "no memory", "abort"))
    async with serving(FakeServer(Behaviour(script=script))) as url:
        tally = await load_of(url, Mix(longest_prompt=8, aborted=0.0)).run(requests=10, seconds=60)
    assert (tally.failed, tally.aborted) == (10, 0)
    assert "no memory" in tally.errors[0]


async def test_what_the_watcher_raises_ends_the_load():
    def die() -> None:
        raise RuntimeError("the server has died")

    async with serving(FakeServer(Behaviour())) as url:
        with pytest.raises(RuntimeError, match="has died"):
            await load_of(url).run(100, 60, die)
