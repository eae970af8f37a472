"""The panel driven by its own widgets against a fake server, as a user would: set values, click."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specswitch.load.background import Tally
from specswitch.serving import control
from specswitch.sweep.given import read_given
from specswitch.sweep.parameters import SweepParameters
from specswitch.widgets import live
from specswitch.widgets.panel import Panel
from specswitch.widgets.parameters import LiveParameters
from specswitch.widgets.samples import gap
from widgets.support import DYNAMIC_V2, SMALL, fake_live, kill, servers_left, wait_for

BATCH, THRESHOLD, SHARE, LENGTH, RATE = range(5)


@pytest.fixture
def open_panel() -> Iterator[Callable[..., Panel]]:
    """Panels of the test; closed after it."""
    panels: list[Panel] = []

    def start(**asked: Any) -> Panel:
        panels.append(Panel(LiveParameters(**{"base": SMALL, **asked}), poll_s=0.1))
        return panels[-1]

    yield start
    for panel in panels:
        assert panel.close(40)


@pytest.fixture
def url() -> Iterator[str]:
    """A fake server with the dynamic worker, threshold 4."""
    with fake_live(*DYNAMIC_V2) as address:
        yield address


def attached(open_panel: Callable[..., Panel], url: str, **asked: Any) -> Panel:
    panel = open_panel(url=url, **asked)
    assert panel.start.description == "Attach"
    panel.start.click()
    assert wait_for(lambda: "mode" in panel.now.value), panel.messages.texts
    return panel


def shows(panel: Panel, trace: int, value: Any) -> bool:
    y = panel.figure.data[trace].y
    return bool(y) and y[-1] == value


def test_the_figure_and_the_mode_follow_the_load_and_the_threshold(
    open_panel: Callable[..., Panel], url: str
) -> None:
    panel = attached(open_panel, url, concurrency=2)
    assert wait_for(lambda: shows(panel, SHARE, 1) and shows(panel, BATCH, 2))
    assert wait_for(lambda: shows(panel, LENGTH, 2) and "mode speculative" in panel.now.value)
    panel.concurrency.value = 16
    assert wait_for(lambda: shows(panel, BATCH, 16) and panel.figure.data[SHARE].y[-1] < 0.5)
    panel.rule.threshold.value = 0
    assert wait_for(lambda: shows(panel, THRESHOLD, 0) and shows(panel, SHARE, 0))
    assert wait_for(lambda: shows(panel, LENGTH, None) and "mode plain" in panel.now.value), "a gap, never 0"
    assert wait_for(lambda: (panel.figure.data[RATE].y[-1] or 0) > 0)
    panel.rule.threshold.value = 20
    assert wait_for(lambda: shows(panel, SHARE, 1) and shows(panel, THRESHOLD, 20))
    assert control.read_state(url)["threshold"] == 20
    panel.session.stop()
    assert panel.session.join(20)
    x = panel.figure.data[BATCH].x
    assert all(len(trace.x) == len(trace.y) == len(x) for trace in panel.figure.data)
    assert list(x) == sorted(x)


def test_hysteresis_dwell_and_sync_reach_the_server(open_panel: Callable[..., Panel], url: str) -> None:
    panel = attached(open_panel, url)
    panel.rule.band.value = 3
    panel.rule.dwell.value = 5
    panel.rule.sync.value = "stale"
    want = {"threshold": 4, "enable_threshold": 1, "dwell": 5, "sync": "stale"}
    assert wait_for(lambda: want.items() <= control.read_state(url).items())
    panel.rule.always.value = True
    assert wait_for(lambda: control.read_state(url)["threshold"] is None)
    assert control.read_state(url)["enable_threshold"] is None


def test_an_attached_servers_own_rule_is_shown_not_overwritten(
    open_panel: Callable[..., Panel], url: str
) -> None:
    control.set_rule(url, threshold=40, enable_threshold=30, dwell=3, sync="eager")
    panel = attached(open_panel, url, threshold=7)
    assert wait_for(lambda: panel.rule.threshold.value == 40)
    assert (panel.rule.band.value, panel.rule.dwell.value, panel.rule.sync.value) == (10, 3, "eager")
    assert control.read_state(url)["threshold"] == 40
    control.set_rule(url, threshold=6, enable_threshold=None)
    assert wait_for(lambda: panel.rule.threshold.value == 6), "somebody else changed it"


def test_a_look_from_before_a_wish_does_not_move_the_control_back(open_panel: Callable[..., Panel]) -> None:
    panel = open_panel()
    before = {"dynamic": True, "threshold": 4, "dwell": 1, "sync": "lazy"}
    panel.looked(gap(0.0), before, Tally())
    assert panel.rule.threshold.value == 4
    panel.rule.threshold.value = 9
    panel.session.change_rule(panel.rule.rule)
    panel.looked(gap(1.0), {**before, "threshold": 5}, Tally())
    assert panel.rule.threshold.value == 9
    assert panel.messages.texts == []


def test_a_refused_rule_is_told_and_the_control_goes_back(open_panel: Callable[..., Panel], url: str) -> None:
    panel = attached(open_panel, url)
    panel.rule.dwell.value = 13
    assert wait_for(lambda: panel.rule.dwell.value == 1)
    assert "thirteen steps bring bad luck" in panel.messages.texts[0]
    assert "thirteen" in panel.messages.box.value
    assert panel.session.phase == "running"
    panel.rule.dwell.value = 2
    assert wait_for(lambda: control.read_state(url)["dwell"] == 2)


def test_stop_leaves_an_attached_server_running_and_start_is_usable_again(
    open_panel: Callable[..., Panel], url: str
) -> None:
    panel = attached(open_panel, url)
    assert (panel.start.disabled, panel.stop.disabled) == (True, False)
    panel.stop.click()
    assert wait_for(lambda: not panel.start.disabled)
    assert panel.stop.disabled
    assert "Stopped" in panel.status.value
    control.read_state(url)
    panel.start.click()
    assert wait_for(lambda: panel.session.phase == "running")


def test_a_batch_table_is_named(open_panel: Callable[..., Panel], url: str) -> None:
    control.set_rule(url, ranges=[[1, 2], [5, 6]])
    panel = attached(open_panel, url)
    assert "speculates at batches [[1, 2], [5, 6]]" in panel.now.value
    panel.concurrency.value = 6
    assert wait_for(lambda: "a sweep has no arm for one, set a threshold" in panel.line.value)
    panel.rule.threshold.value = 3
    assert wait_for(lambda: "dynamic-v2-t3" in panel.line.value)


def test_what_is_copied_is_the_state_and_the_attached_servers_own_parameters(
    open_panel: Callable[..., Panel], url: str
) -> None:
    panel = attached(open_panel, url)
    assert "set a load" in panel.line.value
    panel.concurrency.value = 6
    panel.rule.threshold.value = 9
    panel.rule.sync.value = "eager"
    assert wait_for(lambda: "dynamic-v2-t9-eager" in panel.line.value)
    assert read_given(SweepParameters, yaml_texts=[panel.yaml.value]) == panel.sweep()
    assert panel.sweep().concurrencies == [6]
    assert panel.sweep().model is None, "the bundled pair stays None"
    assert panel.sweep().arms == ["none", "always-v2", "dynamic-v2-t9-eager"]
    assert panel.sweep().prompt_tokens == SMALL.prompt_tokens


def test_what_is_copied_of_a_stock_server_is_always_not_where_the_controls_stand(
    open_panel: Callable[..., Panel],
) -> None:
    stock = DYNAMIC_V2[: DYNAMIC_V2.index("--speculative-disable-batch-threshold")]
    with fake_live(*stock) as url:
        panel = attached(open_panel, url, concurrency=5, threshold=4)
        assert wait_for(lambda: "dynamic" not in panel.line.value), panel.line.value
        assert panel.sweep().arms == ["none", "always-v2"]
        assert panel.sweep().concurrencies == [5]
        assert panel.close(20)
    assert panel.sweep().arms == ["none", "always-v2", "dynamic-v2-t4-lazy"], "the controls count again"


@pytest.mark.usefixtures("fake_engines")
@pytest.mark.parametrize("path", ["v1", "v2", "none"])
def test_start_and_stop_a_server_of_each_path(open_panel: Callable[..., Panel], path: str) -> None:
    panel = open_panel(path=path, threshold=2, concurrency=3)
    assert panel.start.description == "Start"
    asked_s = time.monotonic()
    panel.start.click()
    assert time.monotonic() - asked_s < 2, "the kernel is not blocked"
    panel.start.click()
    assert panel.messages.texts == ["A server is on already: press Stop first"]
    assert wait_for(lambda: shows(panel, BATCH, 3) and panel.figure.data[SHARE].y[-1] is not None)
    assert "failed 0" in panel.load.value
    assert panel.rule.threshold.disabled == (path == "none")
    never = {"v1": ["none", "none-sync"], "v2": ["none"]}
    beside = [*never[path], f"always-{path}", f"dynamic-{path}-t2-lazy"] if path != "none" else ["none"]
    assert panel.sweep().arms == beside
    panel.stop.click()
    assert wait_for(lambda: panel.session.phase == "stopped")
    assert servers_left() == []
    assert not panel.rule.threshold.disabled


@pytest.mark.usefixtures("fake_engines")
def test_always_on_a_server_that_can_be_told_otherwise_later(open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(threshold=None, concurrency=6)
    panel.start.click()
    assert wait_for(lambda: shows(panel, SHARE, 1) and shows(panel, BATCH, 6))
    assert panel.rule.always.value
    assert panel.sweep().arms == ["none", "always-v2"]
    panel.rule.always.value = False
    panel.rule.threshold.value = 0
    assert wait_for(lambda: shows(panel, SHARE, 0))
    assert panel.sweep().arms == ["none", "always-v2", "off-v2-lazy"]


@pytest.mark.usefixtures("fake_engines")
def test_a_dead_server_is_shown_with_its_log_and_start_works_again(open_panel: Callable[..., Panel]) -> None:
    panel = open_panel(concurrency=1)
    panel.start.click()
    assert wait_for(lambda: panel.session.phase == "running" and "mode" in panel.now.value)
    assert panel.session.source is not None
    kill(panel.session.source.url)
    assert wait_for(lambda: panel.session.phase == "failed" and not panel.start.disabled)
    assert "the engine ran out of luck" in panel.messages.box.value
    assert "Press Start to try again" in panel.messages.box.value
    assert "Failed" in panel.status.value
    panel.start.click()
    assert wait_for(lambda: shows(panel, BATCH, 1))


@pytest.mark.usefixtures("fake_engines")
def test_stop_while_it_starts(open_panel: Callable[..., Panel]) -> None:
    slow = SMALL.model_copy(update={"env": ['FAKE_ENGINE={"sloth_s": 50}']})
    panel = open_panel(base=slow)
    panel.start.click()
    assert wait_for(servers_left)
    assert not panel.stop.disabled
    panel.stop.click()
    assert wait_for(lambda: panel.session.phase == "stopped")
    assert servers_left() == []
    assert not panel.start.disabled


@pytest.mark.usefixtures("fake_engines")
def test_a_rule_moved_while_the_server_starts_is_the_one_it_gets(open_panel: Callable[..., Panel]) -> None:
    slow = SMALL.model_copy(update={"env": ['FAKE_ENGINE={"sloth_s": 2}']})
    panel = open_panel(base=slow, threshold=3)
    panel.start.click()
    panel.rule.threshold.value = 11
    assert panel.session.phase == "starting"
    assert wait_for(lambda: shows(panel, THRESHOLD, 11))
    assert panel.rule.threshold.value == 11


def test_impossible_parameters_are_told_and_nothing_starts(open_panel: Callable[..., Panel]) -> None:
    wrong = SMALL.model_copy(update={"model": "/no/such/model", "draft": "/no/such/draft"})
    panel = open_panel(base=wrong)
    panel.start.click()
    assert wait_for(lambda: panel.session.phase == "failed")
    assert "/no/such/model" in panel.messages.texts[0]
    contradiction = SMALL.model_copy(update={"topk": 2, "num_draft_tokens": 4})
    panel = open_panel(base=contradiction)
    panel.start.click()
    assert "topk=2" in panel.messages.texts[0]
    assert panel.session.phase == "stopped"


def test_warnings_of_the_library_are_on_the_panel_and_text_is_escaped(
    open_panel: Callable[..., Panel],
) -> None:
    panel = open_panel()
    logging.getLogger("specswitch.serving.launch").warning("left behind: <b>%s</b>", "x")
    assert panel.messages.texts == ["left behind: <b>x</b>"]
    assert "&lt;b&gt;" in panel.messages.box.value
    panel.close()
    logging.getLogger("specswitch").warning("after the end")
    assert len(panel.messages.texts) == 1


def test_a_panel_opened_again_closes_the_one_before(fake_engines: Path) -> None:
    first = live.open_panel(LiveParameters(base=SMALL))
    first.start.click()
    assert wait_for(lambda: first.session.phase == "running")
    with fake_live(*DYNAMIC_V2) as url:
        second = live.open_panel(LiveParameters(base=SMALL, url=url))
        assert wait_for(lambda: first.session.phase == "stopped")
        assert servers_left() == []
        assert wait_for(lambda: second.session.phase == "running")
        assert second.close(20)
