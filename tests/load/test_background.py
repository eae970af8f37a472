"""The load that runs beside a panel: its concurrency follows, its failures are told, it ends at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import httpx
import pytest

from fakes.fake_server import server_process
from load.support import NumberedPrompts
from specswitch.config import Workload
from specswitch.load.background import BackgroundLoad

WORKLOAD = Workload(prompt_tokens=8, output_tokens=16, request_timeout_s=5.0)


def wait_for(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    until_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.02)
    return True


def running(url: str) -> int:
    return httpx.get(f"{url}/stats", trust_env=False).json()["in_flight"]


def test_concurrency_follows_up_and_down_and_close_leaves_nothing() -> None:
    with server_process("--itl-ms", "10") as url:
        with BackgroundLoad(url, NumberedPrompts(), WORKLOAD, 2) as load:
            assert wait_for(lambda: running(url) == 2 and load.tally.finished > 2)
            load.set_concurrency(5)
            assert wait_for(lambda: running(url) == 5)
            load.set_concurrency(0)
            assert wait_for(lambda: running(url) == 0)
            finished = load.tally.finished
            load.set_concurrency(1)
            assert wait_for(lambda: load.tally.finished > finished)
            assert load.tally.failed == 0
            load.set_concurrency(3)
            assert wait_for(lambda: load.tally.in_flight == 3)
        assert wait_for(lambda: running(url) == 0)
        assert not [t for t in threading.enumerate() if t.name == "specswitch-background-load"]
        load.close()


def test_failures_are_counted_with_their_cause_and_do_not_end_the_load() -> None:
    with BackgroundLoad("http://127.0.0.1:9", NumberedPrompts(), WORKLOAD, 1) as load:
        assert wait_for(lambda: load.tally.failed >= 2)
        assert "ClientConnector" in (load.tally.last_error or "")
        assert load.tally.finished == 0


def test_a_negative_concurrency_is_refused() -> None:
    with (
        BackgroundLoad("http://127.0.0.1:9", NumberedPrompts(), WORKLOAD) as load,
        pytest.raises(ValueError, match=r"concurrency=-1: give 0"),
    ):
        load.set_concurrency(-1)
