"""A server with an API key: everything that the load sends carries it; without it the reason is told."""

from __future__ import annotations

import asyncio
import time

import pytest

from fakes.fake_server import Behaviour, FakeServer, server_process, serving
from load.support import NumberedPrompts, request_of
from specswitch.config import Requests, Workload
from specswitch.load.background import BackgroundLoad
from specswitch.load.client import GenerateClient
from specswitch.load.closed_loop import run_sync
from specswitch.load.idle import tokens_in_use, wait_until_idle
from specswitch.load.over_time import run_over_time_sync, warm_up
from specswitch.load.shapes import Constant, Square
from specswitch.load.wave import run_wave

KEY = "key-1234"
PROMPTS = NumberedPrompts()
ASKED = Requests(prompt_tokens=8, output_tokens=4, request_timeout_s=5.0)
WORKLOAD = Workload(prompt_tokens=8, output_tokens=4, request_timeout_s=5.0, warmup_s=0.0, window_s=0.2)
SQUARE = Square(low=1, high=3, period_s=0.2, duration_s=0.4)


@pytest.fixture(scope="module")
def url():
    with server_process("--api-key", KEY) as address:
        yield address


@pytest.mark.parametrize(("key", "outcome"), [(KEY, "ok"), ("another", "failed"), (None, "failed")])
async def test_a_request_is_answered_with_the_right_key_only(key: str | None, outcome: str) -> None:
    async with (
        serving(FakeServer(Behaviour(api_key=KEY))) as address,
        GenerateClient(address, 5.0, key) as client,
    ):
        record = await client.generate(request_of(4), lambda _: None)
    assert record.outcome == outcome
    assert outcome == "ok" or "HTTP 401" in (record.error or "")


def test_a_closed_loop_sends_the_key(url: str) -> None:
    result = run_sync(url, PROMPTS, WORKLOAD, 2, api_key=KEY)
    assert result.stopped_by == "window"
    assert {r.outcome for r in result.records} == {"ok"}


@pytest.mark.parametrize("shape", [SQUARE, Constant(rate=20, duration_s=0.3)], ids=lambda s: s.kind)
def test_a_load_over_time_and_its_warm_up_send_the_key(url: str, shape: Square | Constant) -> None:
    loads = [
        warm_up(url, PROMPTS, ASKED, shape, 0.1, api_key=KEY),
        run_over_time_sync(url, PROMPTS, ASKED, shape, api_key=KEY),
    ]
    for load in loads:
        assert load.stopped_by == "end"
        assert {r.outcome for r in load.records} == {"ok"}


def test_a_wave_sends_the_key(url: str) -> None:
    records = run_wave(url, [PROMPTS[0], PROMPTS[1]], 4, timeout_s=5.0, api_key=KEY)
    assert [r.outcome for r in records] == ["ok", "ok"]


def test_waiting_and_counting_send_the_key(url: str) -> None:
    assert wait_until_idle(url, 5.0, api_key=KEY) < 5
    assert tokens_in_use(url, 5.0, api_key=KEY) == 0
    with pytest.raises(ConnectionError, match="401"):
        wait_until_idle(url, 5.0)
    with pytest.raises(ConnectionError, match="401"):
        tokens_in_use(url, 5.0)


def test_a_background_load_sends_the_key_and_tells_of_a_wrong_one(url: str) -> None:
    with BackgroundLoad(url, PROMPTS, WORKLOAD, 1, api_key=KEY) as good:
        with BackgroundLoad(url, PROMPTS, WORKLOAD, 1) as bad:
            until_s = time.monotonic() + 20
            while not (good.tally.finished and bad.tally.failed) and time.monotonic() < until_s:
                asyncio.run(asyncio.sleep(0.02))
            assert "HTTP 401" in (bad.tally.last_error or "")
        assert good.tally.finished > 0
        assert good.tally.failed == 0
