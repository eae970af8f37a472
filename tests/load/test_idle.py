"""Between points: wait for the server, or say why not."""

from __future__ import annotations

import asyncio

import pytest

from fakes.fake_server import Behaviour, FakeServer, server_process, serving
from fakes.script import Step
from load.support import request_of
from specswitch.load.client import GenerateClient
from specswitch.load.idle import tokens_in_use, wait_until_idle


async def test_it_waits_until_the_last_request_is_over():
    server = FakeServer(Behaviour(script=(Step(400, 1, "a"),)))
    async with serving(server) as url, GenerateClient(url, 10.0) as client:
        task = asyncio.create_task(client.generate(request_of(1), lambda _: None))
        while server.stats.in_flight == 0:
            await asyncio.sleep(0.005)
        waited = await asyncio.to_thread(wait_until_idle, url, 5.0)
        assert server.stats.in_flight == 0
        assert (await task).outcome == "ok"
    assert 0.2 < waited < 2


async def test_a_server_that_stays_busy_is_an_error_with_the_number_left():
    server = FakeServer(Behaviour(script=(Step(5000, 1, "a"),)))
    async with serving(server) as url, GenerateClient(url, 10.0) as client:
        task = asyncio.create_task(client.generate(request_of(1), lambda _: None))
        while server.stats.in_flight == 0:
            await asyncio.sleep(0.005)
        with pytest.raises(TimeoutError, match="still has 1 requests"):
            await asyncio.to_thread(wait_until_idle, url, 0.2)
        task.cancel()


def test_an_idle_server_is_not_waited_for():
    with server_process() as url:
        assert wait_until_idle(url + "/", 5.0) < 2


def test_no_server_is_said_so():
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        wait_until_idle("http://127.0.0.1:1", 1.0)


async def test_tokens_in_use_are_the_servers_own_count():
    async with serving(FakeServer(Behaviour(tokens_left=12))) as url:
        assert await asyncio.to_thread(tokens_in_use, url) == 12


def test_tokens_in_use_of_nobody_is_a_connection_error():
    with pytest.raises(ConnectionError, match="/v1/loads"):
        tokens_in_use("http://127.0.0.1:9", 5.0)
