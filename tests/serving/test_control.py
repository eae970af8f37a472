"""Reading and changing a live server over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fakes.fake_server import serving
from serving.fake_child import FakeChild
from specswitch.serving import control
from specswitch.serving.errors import PluginMissingError, RuleRefusedError, ServerUnreachableError

RULE = {"dynamic": True, "threshold": 8, "enable_threshold": 4, "dwell": 1, "sync": "lazy"}


@contextmanager
def running(server: FakeChild) -> Iterator[str]:
    """The server in a thread with its own loop; yields its URL."""
    loop = asyncio.new_event_loop()
    started: list[str] = []
    ready = threading.Event()
    stop = asyncio.Event()

    async def body() -> None:
        async with serving(server) as url:
            started.append(url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(body(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()


@pytest.fixture
def server() -> FakeChild:
    return FakeChild(dict(RULE))


@pytest.fixture
def url(server: FakeChild) -> Iterator[str]:
    with running(server) as base:
        yield base


def test_a_changed_rule_is_read_back(url: str) -> None:
    after = control.set_rule(url, threshold=16, dwell=3)
    assert (after["threshold"], after["dwell"], after["enable_threshold"]) == (16, 3, 4)
    assert control.read_state(url)["threshold"] == 16


def test_threshold_none_means_always(url: str) -> None:
    assert control.set_rule(url, threshold=None, enable_threshold=None)["threshold"] is None


@pytest.mark.parametrize("threshold", [3, 0, None])
def test_a_threshold_below_the_enable_threshold_in_force_drops_the_hysteresis(
    url: str, threshold: int | None
) -> None:
    after = control.set_rule(url, threshold=threshold)
    assert (after["threshold"], after["enable_threshold"]) == (threshold, None)


def test_ranges_take_the_place_of_the_thresholds(url: str) -> None:
    after = control.set_rule(url, ranges=[[1, 4], [9, 16]])
    assert (after["ranges"], after["threshold"], after["enable_threshold"]) == ([[1, 4], [9, 16]], None, None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, "nothing to change"),
        ({"treshold": 4}, "treshold"),
        ({"threshold": -1}, "-1"),
        ({"threshold": 2.5}, "2.5"),
        ({"threshold": True}, "True"),
        ({"threshold": 10**23}, f"threshold={10**23}: give a whole number of 2147483647 or less"),
        ({"dwell": 2**31}, "dwell=2147483648: give a whole number of 2147483647 or less"),
        ({"ranges": [[1, 2**31]]}, "ranges="),
        ({"dwell": 0}, "dwell=0"),
        ({"dwell": None}, "dwell=None"),
        ({"sync": "sometimes"}, "sometimes"),
        ({"enable_threshold": 9}, "enable_threshold=9 with threshold=8"),
        ({"threshold": 3, "enable_threshold": 4}, "enable_threshold=4 with threshold=3"),
        ({"threshold": None, "enable_threshold": 4}, "enable_threshold=4 with threshold=None"),
    ],
)
def test_an_impossible_change_is_refused_before_it_is_sent(
    url: str, server: FakeChild, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(RuleRefusedError, match=named):
        control.set_rule(url, **changes)
    assert {k: server.behaviour.info[k] for k in RULE} == RULE


def test_a_refusal_of_the_server_is_an_error(url: str, server: FakeChild) -> None:
    server.refuse_changes = True
    with pytest.raises(RuleRefusedError, match=r"refused .*: its log says why \(answer \[false\]\)"):
        control.set_rule(url, threshold=16)


def test_the_reason_of_a_refusal_is_told(url: str, server: FakeChild) -> None:
    server.refuse_changes = True
    server.behaviour.info["last_refusal"] = "ranges are used alone: leave the threshold out"
    with pytest.raises(
        RuleRefusedError, match=r"refused .*: ranges are used alone: leave the threshold out$"
    ):
        control.set_rule(url, threshold=8, ranges=[[1, 4]])


def test_a_change_that_did_not_take_is_an_error(url: str, server: FakeChild) -> None:
    server.ignore_changes = True
    with pytest.raises(RuleRefusedError, match="but has"):
        control.set_rule(url, threshold=16)


def test_a_server_without_a_rule_says_how_to_get_one(url: str, server: FakeChild) -> None:
    server.behaviour.info |= {"dynamic": False, "worker_class": "EAGLEWorkerV2"}
    with pytest.raises(RuleRefusedError, match=r"stock EAGLEWorkerV2.*threshold"):
        control.set_rule(url, threshold=4)


def test_a_stock_engine_has_no_state(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STOCK", "1")
    with pytest.raises(PluginMissingError):
        control.read_state(url)


def test_nothing_at_the_url_is_named() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # bound, not listening
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
        why = r"nothing answers there \(connection refused\): is the server up"
        with pytest.raises(ServerUnreachableError, match=f"{url}/server_info: {why}"):
            control.read_state(url, timeout_s=2)
        with pytest.raises(ServerUnreachableError, match=url):
            control.check_health(url)


def test_a_proxy_in_the_environment_is_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert control.read_state(url)["threshold"] == 8


def test_flush_reaches_the_server(url: str, server: FakeChild) -> None:
    control.flush_cache(url)
    assert ("flush", True) in server.stats.events


async def test_a_flush_that_a_busy_server_refuses_says_why(server: FakeChild) -> None:
    server.stats.in_flight = 1
    async with serving(server) as url:
        with pytest.raises(ServerUnreachableError, match="requests are running"):
            await asyncio.to_thread(control.flush_cache, url, timeout_s=0.1)


def test_generate_returns_the_engines_counts(url: str) -> None:
    assert control.generate(url, [1, 2], 5)["meta_info"]["completion_tokens"] == 5
