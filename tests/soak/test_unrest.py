"""The tide crosses the threshold all the time; the rules are rules that a server takes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specswitch.serving.control import SYNC_RULES
from specswitch.serving.flags import checked_rule
from specswitch.soak.unrest import Rules, Tide


def test_the_tide_crosses_the_threshold_at_least_every_other_second():
    levels = [Tide(4, 12, seed=1).target(0.0)]
    tide = Tide(4, 12, seed=1)
    levels = [tide.target(i * 0.05) for i in range(2000)]
    assert (min(levels), max(levels)) == (1, 12)
    crossings = sum((a <= 4) != (b <= 4) for a, b in pairwise(levels))
    assert 50 <= crossings <= 100 / 0.3


def test_the_same_seed_gives_the_same_tide():
    one, other = Tide(4, 12, seed=2), Tide(4, 12, seed=2)
    assert [one.target(t) for t in range(50)] == [other.target(t) for t in range(50)]


@pytest.mark.parametrize(("threshold", "peak"), [(0, 4), (4, 4)])
def test_a_tide_that_cannot_cross_is_refused(threshold: int, peak: int):
    with pytest.raises(ValueError, match=f"threshold={threshold}, peak={peak}"):
        Tide(threshold, peak, seed=1)


@pytest.mark.parametrize("threshold", [1, 2, 4])
def test_rules_are_possible_and_reach_every_kind(threshold: int):
    rules = Rules(threshold, seed=1)
    drawn = [rules.draw() for _ in range(300)]
    for rule in drawn:
        checked_rule(**rule)
    assert {rule["sync"] for rule in drawn} == set(SYNC_RULES)
    assert {0, None, threshold} < {rule["threshold"] for rule in drawn}
    assert any(rule["enable_threshold"] for rule in drawn)


def test_never_and_always_do_not_last():
    rules = Rules(4, seed=1)
    pauses = [(bool(rules.draw()["threshold"]), rules.pause_s()) for _ in range(200)]
    assert max(pause for crossed, pause in pauses if not crossed) < 2 <= min(p for c, p in pauses if c)
