"""Between two points: wait until the server has nothing left to do, and see what it still holds.

A request that the client cut off runs on in the engine for some seconds. Plain functions for callers without an
event loop of their own; they work inside one, too.
"""

from __future__ import annotations

import asyncio
import time

import aiohttp

from specswitch.load.client import auth_headers
from specswitch.load.own_loop import run_in_own_loop

POLL_S = 0.05


def wait_until_idle(url: str, timeout_s: float = 60.0, *, api_key: str | None = None) -> float:
    """Wait until the server at `url` runs and queues no request; returns the seconds waited.

    Raises TimeoutError with the number of requests left, ConnectionError when the server does not answer.
    """
    return run_in_own_loop(lambda: _wait_until_idle(url.rstrip("/"), timeout_s, api_key))


def tokens_in_use(url: str, timeout_s: float = 60.0, *, api_key: str | None = None) -> int:
    """KV slots held by requests at the server at `url`; what only the prefix cache holds is free.

    Of an idle server this is 0, or what has leaked. Raises ConnectionError when the server does not answer.
    """
    return run_in_own_loop(lambda: _tokens_in_use(url.rstrip("/"), timeout_s, api_key))


async def _wait_until_idle(url: str, timeout_s: float, api_key: str | None) -> float:
    start_s = time.monotonic()
    async with _session(timeout_s, api_key) as session:
        while True:
            left = await _requests_left(session, url)
            waited_s = time.monotonic() - start_s
            if left == 0:
                return waited_s
            if waited_s > timeout_s:
                raise TimeoutError(f"{url} still has {left} requests after {timeout_s:g} s")
            await asyncio.sleep(POLL_S)


async def _tokens_in_use(url: str, timeout_s: float, api_key: str | None) -> int:
    async with _session(timeout_s, api_key) as session:
        return await _total(session, url, "total_used_tokens")


async def _requests_left(session: aiohttp.ClientSession, url: str) -> int:
    return await _total(session, url, "total_reqs")


async def _total(session: aiohttp.ClientSession, url: str, name: str) -> int:
    try:
        async with session.get(f"{url}/v1/loads") as response:
            response.raise_for_status()
            return int((await response.json())["aggregate"][name])
    except aiohttp.ClientError as problem:
        raise ConnectionError(f"{url}/v1/loads: {problem}") from problem


def _session(timeout_s: float, api_key: str | None) -> aiohttp.ClientSession:
    """A session that outlasts the server's own waiting by some seconds and uses no proxy."""
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=timeout_s + 10), headers=auth_headers(api_key), trust_env=False
    )
