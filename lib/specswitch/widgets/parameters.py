"""The live notebook's parameters, and any state of its panel as the parameters of a sweep.

There is one way from a panel to a server: state -> `SweepParameters` -> plan -> `ServerConfig`. So what is
shown for copying is what runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import ValidationError

from specswitch.config import Arm, NonNegative, Path_, Point, Rule, ServerConfig, Strict
from specswitch.explain import explain
from specswitch.sweep.grid import launch_config, points
from specswitch.sweep.parameters import ParameterError, SweepParameters

# How a server runs: the two EAGLE paths, or no speculation with and without the overlap scheduler.
Kind = Literal["v2", "v1", "none", "none-sync"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class PanelState(Strict):
    """What the panel's controls say. `concurrency`: requests that the background load holds in flight."""

    path: Kind = "v2"
    rule: Rule = Rule(threshold=4)
    concurrency: NonNegative = 0

    @property
    def arm(self) -> Arm:
        """The sweep's arm for this state. A threshold of None is the stock worker there (`always`)."""
        if self.path in ("none", "none-sync"):
            return Arm(mode="none", overlap=self.path == "none")
        path: Path_ = "v1" if self.path == "v1" else "v2"
        if self.rule.threshold is None:
            return Arm(mode="always", path=path)
        return Arm(mode="dynamic" if self.rule.threshold else "off", path=path, rule=self.rule)


class LiveParameters(Strict):
    """Parameters of the live notebook.

    `url`: attach to the server there; None: the panel starts and stops its own. `path`, `threshold`,
    `concurrency`: where the controls stand at first. `base`: model, server and requests, named as in a sweep.
    """

    url: str | None = None
    path: Kind = "v2"
    threshold: NonNegative | None = 4
    concurrency: NonNegative = 0
    base: SweepParameters = SweepParameters()

    @classmethod
    def of_namespace(cls, namespace: Mapping[str, Any]) -> Self:
        """The parameters that a notebook's cells have set so far: pass `globals()`.

        Raises:
            ParameterError: an unknown name or an impossible value.
        """
        own = {name: namespace[name] for name in OWN if name in namespace}
        rest = {name: value for name, value in namespace.items() if name not in own}
        try:
            base = SweepParameters.of_namespace(rest)
        except ParameterError as problem:
            raise ParameterError(f"{problem}; of the live notebook alone: {', '.join(OWN)}") from problem
        try:
            return cls(base=base, **own)
        except ValidationError as problem:
            raise ParameterError(f"parameter {explain(problem)}") from problem

    def state(self) -> PanelState:
        """Where the controls stand at first."""
        rule = Rule(threshold=self.threshold, lazy_window=self.base.lazy_window)
        return PanelState(path=self.path, rule=rule, concurrency=self.concurrency)


OWN = tuple(name for name in LiveParameters.model_fields if name != "base")


def as_sweep(base: SweepParameters, state: PanelState) -> SweepParameters:
    """The sweep at one concurrency that measures this state's arm beside the static ones it is judged by.

    On v1 and v2 these are the servers without speculation and the one that always speculates, so that the
    envelope can be drawn. The state's own arm is the last.

    Raises:
        ParameterError: no load is set.
    """
    if state.concurrency < 1:
        raise ParameterError("concurrency = 0: set a load, a sweep measures at one request at least")
    return _sweep_of([*_static_arms(state.path), state.arm.label], base, state)


def as_point(base: SweepParameters, state: PanelState) -> Point:
    """The first point of this state's own arm (with one request where no load is set): arm, server, workload.

    Raises:
        ParameterError: the parameters contradict each other.
    """
    loaded = state.model_copy(update={"concurrency": max(1, state.concurrency)})
    return points(_sweep_of([state.arm.label], base, loaded).plan())[0]


def _static_arms(path: Kind) -> list[str]:
    """Never and always on `path`. v1 is judged by `none-sync`, as it has no overlap scheduler; `none` stands beside."""
    never = {"v1": ["none", "none-sync"], "v2": ["none"]}
    return [*never[path], f"always-{path}"] if path in never else []


def _sweep_of(arms: list[str], base: SweepParameters, state: PanelState) -> SweepParameters:
    once = list(dict.fromkeys(arms))  # the state itself may be a static arm
    return SweepParameters.of({**base.changed(), "arms": once, "concurrencies": [state.concurrency]})


def server_to_start(base: SweepParameters, state: PanelState) -> ServerConfig:
    """The server that can take every rule of the panel: on v1 and v2 one with the dynamic worker.

    Raises:
        ParameterError: as `as_point`.
    """
    if state.path in ("v1", "v2") and state.rule.threshold is None:
        state = state.model_copy(update={"rule": Rule(threshold=1)})
    return launch_config(as_point(base, state).server)


def rule_changes(rule: Rule) -> dict[str, Any]:
    """Arguments of `serving.control.set_rule` that bring a running server to this rule."""
    names = ("threshold", "enable_threshold", "dwell") + (("sync",) if rule.sync is not None else ())
    return {name: getattr(rule, name) for name in names}


def rule_of(server_state: Mapping[str, Any]) -> Rule | None:
    """The rule that a server reports; None if it has none that can be changed, or a batch table."""
    if not server_state.get("dynamic") or server_state.get("ranges") is not None:
        return None
    names = ("threshold", "enable_threshold", "dwell", "sync", "lazy_window")
    return Rule(**{name: server_state[name] for name in names if server_state.get(name) is not None})
