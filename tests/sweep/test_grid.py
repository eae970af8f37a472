"""The order of points: everything once, arms take turns, one server for all thresholds."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from specswitch.sweep import grid
from specswitch.sweep.parameters import SweepParameters

ARMS = ["none", "none-sync", "always-v1", "always-v2"]


def plan(**other):
    return SweepParameters.of({"arms": ARMS, "concurrencies": [1, 2, 8], "repeats": 4, **other}).plan()


@pytest.mark.parametrize("hold", ["all", "one"])
def test_every_point_is_there_once(hold: grid.Hold) -> None:
    points = grid.points(plan(), hold)
    cells = {(p.arm.label, p.concurrency, p.repeat) for p in points}
    assert len(points) == len(cells) == 4 * 3 * 4
    assert len({p.point_id for p in points}) == len(points)
    assert {p.point_id for p in points} == {p.point_id for p in grid.points(plan())}


def test_every_arm_goes_first_equally_often() -> None:
    """Field case B6: order is rotated between arms, so that drift lands on none of them."""
    points = grid.points(plan())
    firsts = Counter(points[i].arm.label for i in range(0, len(points), len(ARMS)))
    assert firsts == dict.fromkeys(ARMS, 3)
    at_one = [p.arm.label for p in points if p.concurrency == 8]
    assert at_one[::4] == ["always-v1", "always-v2", "none", "none-sync"]


def test_repeats_interleave_between_arms() -> None:
    points = grid.points(plan())
    assert [p.repeat for p in points] == sorted(p.repeat for p in points)
    neighbours = [points[i : i + 4] for i in range(0, len(points), 4)]
    assert all(len({p.arm.label for p in group}) == 4 for group in neighbours)
    assert all(len({p.concurrency for p in group}) == 1 for group in neighbours)


def test_with_one_server_at_a_time_each_starts_once_per_repeat() -> None:
    points = grid.points(plan(arms=[*ARMS, "dynamic-v2-t2", "dynamic-v2-t4"]), "one")
    keys = [grid.launch_config(p.server).canonical() for p in points]
    changes = 1 + sum(a != b for a, b in itertools.pairwise(keys))
    assert changes == 4 * 5
    order = [p.arm.label for p in points if p.repeat == 1 and p.concurrency == 1]
    assert order[0] == "none-sync"


def test_one_launch_serves_every_threshold_of_a_path() -> None:
    arms = [
        "none",
        "always-v2",
        "off-v2-lazy",
        "dynamic-v2-t2-lazy",
        "dynamic-v2-t8-e4-d2-eager",
        "dynamic-v1-t2",
        "off-v1",
    ]
    servers = grid.launch_configs(grid.points(plan(arms=arms)))
    assert [grid.server_name(s) for s in servers] == ["none", "always-v2", "dynamic-v2", "dynamic-v1"]


def test_always_is_the_stock_worker_and_needs_a_server_of_its_own() -> None:
    points = grid.points(plan(arms=["always-v2", "dynamic-v2-t8"]))
    always, dynamic = (grid.launch_config(p.server) for p in points[:2])
    assert always.rule.threshold is None
    assert dynamic.rule.threshold is not None


def test_what_a_live_server_cannot_change_needs_another_launch() -> None:
    base = SweepParameters(arms=["dynamic-v2-t8"], lazy_window=16)
    other = SweepParameters(arms=["dynamic-v2-t8"], lazy_window=32)
    first, second = (grid.launch_config(grid.points(p.plan())[0].server) for p in (base, other))
    assert first != second
