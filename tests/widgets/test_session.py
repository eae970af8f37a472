"""The session against a fake server: every way to start, to change, to fail and to stop."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from fakes.fake_server import Behaviour, FakeServer, serving
from specswitch.config import Rule
from specswitch.serving import control
from specswitch.widgets.parameters import PanelState, server_to_start
from specswitch.widgets.session import Session
from specswitch.widgets.sources import Attached, Launched
from widgets.support import DYNAMIC_V2, SMALL, Notes, fake_live, kill, servers_left, wait_for

POLL_S = 0.1


def launched() -> Launched:
    return Launched(server_to_start(SMALL, PanelState()), SMALL, "v2")


def test_an_attached_server_is_watched_loaded_and_left_running() -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    with fake_live(*DYNAMIC_V2) as url:
        source = Attached(url.removeprefix("http://"), SMALL)
        assert session.start(source, None, 2)
        assert wait_for(lambda: any(s.mode == "speculative" and s.running_batch == 2 for s in notes.samples))
        assert source.path == "v2"
        assert source.base == SMALL
        assert {s.accept_length for s in notes.samples if s.mode == "speculative"} == {2.0}
        session.change_concurrency(8)
        assert wait_for(lambda: any(s.running_batch == 8 for s in notes.samples))
        session.change_rule(Rule(threshold=0))
        assert wait_for(lambda: any(s.mode == "plain" for s in notes.samples))
        plain = [s for s in notes.samples if s.mode == "plain"]
        assert {s.accept_length for s in plain} == {None}
        assert any((s.tok_s or 0) > 0 for s in plain)
        session.change_rule(Rule(threshold=16, dwell=2, sync="eager"))
        assert wait_for(lambda: notes.samples[-1].mode == "speculative")
        state = control.read_state(url)
        assert (state["threshold"], state["dwell"], state["sync"]) == (16, 2, "eager")
        assert session.stop()
        assert session.join(20)
        assert notes.order == ["starting", "running", "stopping", "stopped"]
        assert notes.problems == []
        assert wait_for(lambda: httpx.get(f"{url}/stats", trust_env=False).json()["in_flight"] == 0)


def test_of_a_refused_rule_the_reason_and_the_servers_own_rule_are_told() -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    with fake_live(*DYNAMIC_V2) as url:
        session.start(Attached(url, SMALL), None, 0)
        assert wait_for(lambda: notes.samples)
        session.change_rule(Rule(threshold=5, dwell=13))
        assert wait_for(lambda: notes.refusals)
        reason, state = notes.refusals[0]
        assert "thirteen steps bring bad luck" in reason
        assert (state["threshold"], state["dwell"]) == (4, 1)
        assert session.phase == "running"
        assert not session.wishes
        session.stop()
        session.join(20)


def test_looks_keep_their_pace_however_often_the_rule_is_changed() -> None:
    notes = Notes()
    session = Session(notes, 0.4)
    with fake_live(*DYNAMIC_V2) as url:
        session.start(Attached(url, SMALL), None, 0)
        assert wait_for(lambda: notes.samples)
        for threshold in range(20):
            session.change_rule(Rule(threshold=threshold, sync="lazy"))
            time.sleep(0.05)
        assert wait_for(lambda: control.read_state(url)["threshold"] == 19)
        session.stop()
        session.join(20)
    times = [s.t_s for s in notes.samples]
    assert min(b - a for a, b in itertools.pairwise(times)) > 0.3


@pytest.mark.usefixtures("fake_engines")
def test_a_launched_server_takes_the_panels_rule_and_is_gone_after_stop() -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    assert session.start(launched(), Rule(threshold=None, sync="stale"), 1)
    assert not session.start(launched(), None, 0), "a second start while one is on"
    assert wait_for(lambda: notes.states and notes.states[-1] and notes.states[-1]["sync"] == "stale")
    assert notes.states[-1]["threshold"] is None
    assert len(servers_left()) == 1
    asked_s = time.monotonic()
    assert session.stop()
    assert time.monotonic() - asked_s < 0.5, "stop returns at once"
    assert not session.stop()
    assert session.join(30)
    assert session.phase == "stopped"
    assert notes.problems == []
    assert servers_left() == []


def test_a_server_that_dies_is_told_with_the_end_of_its_log_and_can_be_started_again(
    fake_engines: Path,
) -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    source = launched()
    session.start(source, None, 2)
    assert wait_for(lambda: notes.samples)
    kill(source.url)
    assert wait_for(lambda: session.phase == "failed")
    session.join(20)
    phase, message = notes.phases[-1]
    assert phase == "failed"
    assert "exit code 3" in message
    assert "the engine ran out of luck" in message
    assert str(fake_engines) in message
    assert servers_left() == []
    assert session.start(launched(), None, 0)
    assert wait_for(lambda: session.phase == "running")
    session.stop()
    assert session.join(30)


@pytest.mark.usefixtures("fake_engines")
def test_stop_during_the_start_stops_it() -> None:
    slow = SMALL.model_copy(update={"env": ['FAKE_ENGINE={"sloth_s": 50}']})
    notes = Notes()
    session = Session(notes, POLL_S)
    session.start(Launched(server_to_start(slow, PanelState()), slow, "v2"), None, 4)
    assert wait_for(servers_left)
    session.stop()
    assert session.join(30)
    assert notes.order == ["starting", "stopping", "stopped"]
    assert servers_left() == []
    session.start(launched(), None, 0)
    session.stop()  # before there is a process
    assert session.join(30)
    assert session.phase == "stopped"
    assert servers_left() == []


def test_an_attached_server_that_is_not_there_fails_and_says_what_was_asked() -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    session.start(Attached("http://127.0.0.1:9", SMALL), None, 0)
    assert session.join(20)
    assert notes.order == ["starting", "failed"]
    assert "127.0.0.1:9/server_info" in notes.phases[-1][1]


class StockServer(FakeServer):
    """An SGLang without Specswitch."""

    async def server_info(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.5.12", "internal_states": [{}]})


async def test_a_stock_server_is_named_as_one() -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    async with serving(StockServer(Behaviour())) as url:
        session.start(Attached(url, SMALL), None, 0)
        assert await asyncio.to_thread(session.join, 20)
    assert notes.order == ["starting", "failed"]
    assert "stock SGLang" in notes.phases[-1][1]
    assert "specswitch doctor" in notes.phases[-1][1]


def test_a_launched_pair_that_accepts_nothing_is_refused(fake_engines: Path) -> None:
    odd = SMALL.model_copy(update={"env": ["FAKE_ACCEPTED=0"]})
    notes = Notes()
    session = Session(notes, POLL_S)
    session.start(Launched(server_to_start(odd, PanelState()), odd, "v2"), None, 0)
    assert session.join(60)
    assert "probably not the draft of this target" in notes.phases[-1][1]
    assert servers_left() == []


def test_prompts_that_cannot_be_had_cost_the_load_not_the_session(tmp_path: Path) -> None:
    notes = Notes()
    session = Session(notes, POLL_S)
    missing = SMALL.model_copy(update={"dataset": "file:/nowhere.jsonl"})
    with fake_live(*DYNAMIC_V2) as url:
        session.start(Attached(url, missing), None, 3)
        assert wait_for(lambda: notes.problems and len(notes.samples) > 2)
        assert notes.problems == ["No load: dataset 'file:/nowhere.jsonl': no file /nowhere.jsonl"]
        assert session.phase == "running"
        session.stop()
        session.join(20)


def test_an_attached_server_that_falls_silent_leaves_a_gap_then_ends_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("specswitch.widgets.session.GIVE_UP_S", 1.0)
    notes = Notes()
    session = Session(notes, POLL_S)
    with fake_live(*DYNAMIC_V2) as url:
        session.start(Attached(url, SMALL), None, 0)
        assert wait_for(lambda: notes.samples)
        kill(url)
        assert wait_for(lambda: session.phase == "failed")
    assert "The server does not answer" in notes.problems[0]
    assert notes.samples[-1].tok_s is None
    assert notes.samples[-1].running_batch is None
