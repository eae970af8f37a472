"""A plan becomes a list of points in the order in which they are measured.

Whatever drifts in a machine over minutes must not land on one arm: the arms take turns at every
concurrency, and who goes first rotates with the repeat and the concurrency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

from specswitch.config import Arm, Plan, Point, Rule, ServerConfig, SweepPlan
from specswitch.load.crossing_plan import AnyPlan, AnyPoint, CrossingPlan, CrossingPoint

Hold = Literal["all", "one"]
T = TypeVar("T")


@overload
def points(plan: SweepPlan, hold: Hold = "all") -> list[Point]: ...


@overload
def points(plan: CrossingPlan, hold: Hold = "all") -> list[CrossingPoint]: ...


def points(plan: AnyPlan, hold: Hold = "all") -> list[Point] | list[CrossingPoint]:
    """Every point of the plan, once, in order.

    A load is a concurrency or a shape. `all`: repeat, load, arm (rotated). `one`, where only one server is
    up: repeat, server (rotated), load, arm (rotated), so that each server is started once per repeat.
    """
    ordered: list[Any] = []
    for repeat in range(plan.repeats):
        for arms in _groups(plan, hold, repeat):
            for at in range(len(plan.loads)):
                ordered += [
                    plan.point(arm, server_config(plan, arm), at, repeat)
                    for arm in rotated(arms, repeat + at)
                ]
    return ordered


def server_config(plan: Plan, arm: Arm) -> ServerConfig:
    """The server that an arm asks for: the plan's base with the arm's path, overlap and rule."""
    base = {name: getattr(plan.server, name) for name in ServerConfig.model_fields}
    draft = None if arm.path == "none" else plan.draft
    return ServerConfig(
        **{**base, "path": arm.path, "draft": draft, "overlap": arm.overlap, "rule": arm.rule}
    )


def launch_config(server: ServerConfig) -> ServerConfig:
    """The server to start for this one: equal for all that differ only in what a live server can change.

    A server without a rule runs the stock worker and stays apart; with one, threshold, hysteresis, dwell and
    sync rule are set before each point, so that one launch serves a whole sweep of thresholds.
    """
    if server.rule.threshold is None:
        return server
    base = {name: getattr(server, name) for name in ServerConfig.model_fields}
    return ServerConfig(**{**base, "rule": Rule(threshold=1, lazy_window=server.rule.lazy_window)})


def launch_configs(measured: Sequence[AnyPoint]) -> list[ServerConfig]:
    """The servers that these points need, each once, in order of first use."""
    needed = [launch_config(point.server) for point in measured]
    return list({config.canonical(): config for config in needed}.values())


def server_name(config: ServerConfig) -> str:
    """Short name of a launched server, e.g. `none-sync`, `always-v1`, `dynamic-v2`."""
    if config.path == "none":
        return "none" if config.overlap else "none-sync"
    return f"{'always' if config.rule.threshold is None else 'dynamic'}-{config.path}"


def rotated(items: Sequence[T], by: int) -> list[T]:
    """`items` beginning with number `by` (modulo their number)."""
    start = by % len(items)
    return [*items[start:], *items[:start]]


def _groups(plan: Plan, hold: Hold, repeat: int) -> list[list[Arm]]:
    """Arms that take turns with each other: all of them, or those of one server after the other."""
    if hold == "all":
        return [list(plan.arms)]
    by_server: dict[str, list[Arm]] = {}
    for arm in plan.arms:
        by_server.setdefault(launch_config(server_config(plan, arm)).canonical(), []).append(arm)
    return rotated(list(by_server.values()), repeat)
