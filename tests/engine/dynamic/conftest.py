"""The pair of models and the plain server's answers, made once."""

from __future__ import annotations

import pytest

from engine.cpu.random_pair import make_random_pair
from engine.dynamic import loads, runs
from engine.dynamic.runs import Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Target and draft directories."""
    return make_random_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def plain_crossing(pair: Pair) -> dict[str, list[int]]:
    """What the plain server says to the crossing load."""
    longs, shorts = loads.crossing()
    return runs.in_child(runs.plain_reference, pair, [*longs, *shorts])


@pytest.fixture(scope="session")
def plain_random(pair: Pair) -> dict[str, list[int]]:
    """What the plain server says to 40 random requests."""
    return runs.in_child(runs.plain_reference, pair, loads.random_requests(40))


@pytest.fixture(scope="session")
def plain_two_hundred(pair: Pair) -> dict[str, list[int]]:
    """What the plain server says to 200 random requests."""
    return runs.in_child(runs.plain_reference, pair, loads.random_requests(200))
