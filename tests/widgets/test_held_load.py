"""The load of a session: made once, told of once."""

from __future__ import annotations

from specswitch.load.background import Tally
from specswitch.sweep.parameters import SweepParameters
from specswitch.widgets.held_load import HeldLoad
from specswitch.widgets.sources import Attached, Source

SOURCE = Attached("http://nowhere", SweepParameters())


class MadeUpLoad:
    def __init__(self) -> None:
        self.wanted: list[int] = []
        self.tally = Tally()
        self.closed = False

    def set_concurrency(self, concurrency: int) -> None:
        self.wanted.append(concurrency)

    def close(self) -> None:
        self.closed = True


def test_it_is_made_when_first_wanted_and_told_only_changes() -> None:
    load, made = MadeUpLoad(), []

    def make(source: Source) -> MadeUpLoad:
        made.append(source)
        return load

    held = HeldLoad(SOURCE, make, lambda _: None)
    held.want(0)
    assert held.tally == Tally()
    assert made == []
    for concurrency in (3, 3, 5, 0):
        held.want(concurrency)
    assert (made, load.wanted) == ([SOURCE], [3, 5, 0])
    held.close()
    assert load.closed


def test_an_error_is_told_once_and_again_when_it_is_another() -> None:
    load, told = MadeUpLoad(), []
    held = HeldLoad(SOURCE, lambda _: load, told.append)
    held.want(1)
    for error in (None, "HTTP 500", "HTTP 500", None, "HTTP 500"):
        load.tally = Tally(last_error=error)
        assert held.tally == load.tally
    assert told == ["A request of the load failed: HTTP 500"] * 2


def test_a_load_that_cannot_be_made_is_tried_again_when_another_is_wanted() -> None:
    load, told = MadeUpLoad(), []
    answers = [ValueError("no prompts"), None]

    def make(_: Source) -> MadeUpLoad:
        problem = answers.pop(0)
        if problem:
            raise problem
        return load

    held = HeldLoad(SOURCE, make, told.append)
    held.want(2)
    held.want(2)
    assert told == ["No load: no prompts"]
    held.want(4)
    assert load.wanted == [4]
