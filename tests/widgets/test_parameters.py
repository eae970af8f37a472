"""From the notebook's cells to a server, and from a panel's state to a batch run: one way, no loss."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plots.tables import made_up_table
from specswitch.config import Rule
from specswitch.models import pair
from specswitch.plots.grid import Grid
from specswitch.plots.switching import envelope_series
from specswitch.sweep.given import read_given
from specswitch.sweep.grid import points
from specswitch.sweep.parameters import ParameterError, SweepParameters
from specswitch.widgets.batch import as_yaml, command_line
from specswitch.widgets.parameters import (
    KINDS,
    Kind,
    LiveParameters,
    PanelState,
    as_point,
    as_sweep,
    rule_changes,
    rule_of,
    server_to_start,
)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    threshold = draw(st.none() | st.integers(0, 64))
    enable = None if not threshold else draw(st.none() | st.integers(0, threshold))
    return Rule(
        threshold=threshold,
        enable_threshold=enable,
        dwell=draw(st.integers(1, 99)),
        sync=draw(st.sampled_from([None, "lazy", "eager", "stale"])),
    )


states = st.builds(PanelState, path=st.sampled_from(KINDS), rule=rules(), concurrency=st.integers(1, 64))
changes = st.fixed_dictionaries(
    {},
    optional={
        "ignore_eos": st.booleans(),
        "temperature": st.floats(0, 2),
        "env": st.lists(st.text(min_size=1).map(lambda v: f"NAME={v}"), max_size=2),
        "dataset": st.sampled_from(["random", "file:a folder/b's.jsonl"]),
        "port": st.integers(1, 65535),
        "seed": st.integers(0, 9),
    },
)


@given(state=states, other=changes)
@settings(max_examples=60, deadline=None)
def test_what_is_copied_is_read_back_as_it_was(state: PanelState, other: dict[str, Any]) -> None:
    asked = as_sweep(SweepParameters.of(other), state)
    words = shlex.split(command_line(asked))
    assert words[:2] == ["specswitch", "sweep"]
    flags = words[2:]
    assert set(flags[::3]) == {"-p"}
    assert read_given(SweepParameters, list(zip(flags[1::3], flags[2::3], strict=True))) == asked
    assert read_given(SweepParameters, yaml_texts=[as_yaml(asked)]) == asked


@given(state=states)
@settings(max_examples=60, deadline=None)
def test_the_sweep_measures_the_panels_rule(state: PanelState) -> None:
    asked = as_sweep(SweepParameters(), state)
    measured = points(SweepParameters.of({**asked.changed(), "repeats": 1}).plan())
    assert {p.concurrency for p in measured} == {state.concurrency}
    (point,) = (p for p in measured if p.arm.label == state.arm.label)
    assert asked.arms[-1] == state.arm.label
    assert point.server.path == ("none" if state.path == "none-sync" else state.path)
    if state.path in ("v1", "v2"):
        rule = point.server.rule
        assert rule.threshold == state.rule.threshold
        if state.rule.threshold:
            assert rule == state.rule


@pytest.mark.parametrize(
    ("path", "threshold", "arms"),
    [
        ("v2", 3, ["none", "always-v2", "dynamic-v2-t3"]),
        ("v1", 3, ["none", "none-sync", "always-v1", "dynamic-v1-t3"]),
        ("v2", 0, ["none", "always-v2", "off-v2"]),
        ("v2", None, ["none", "always-v2"]),
        ("none", 3, ["none"]),
        ("none-sync", 3, ["none-sync"]),
    ],
)
def test_the_static_arms_stand_beside_the_panels_own(
    path: Kind, threshold: int | None, arms: list[str]
) -> None:
    state = PanelState(path=path, rule=Rule(threshold=threshold), concurrency=6)
    assert as_sweep(SweepParameters(), state).arms == arms


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_of_what_the_sweep_measures_the_envelope_can_be_drawn(path: Kind) -> None:
    state = PanelState(path=path, rule=Rule(threshold=3), concurrency=6)
    arms = as_sweep(SweepParameters(), state).arms
    (line,) = envelope_series(Grid(made_up_table(tuple(arms), (6,))))
    assert line.label == arms[-1]
    assert line.drawable


def test_the_line_names_only_what_is_not_a_default() -> None:
    state = PanelState(rule=Rule(threshold=8, enable_threshold=4, dwell=16, sync="eager"), concurrency=12)
    line = command_line(as_sweep(SweepParameters(prompt_tokens=9), state))
    arms = '["none", "always-v2", "dynamic-v2-t8-e4-d16-eager"]'
    assert line == f"specswitch sweep -p arms '{arms}' -p prompt_tokens 9 -p concurrencies '[12]'"


def test_without_a_load_there_is_no_sweep_and_the_cure_is_said() -> None:
    with pytest.raises(ParameterError, match="concurrency = 0: set a load"):
        as_sweep(SweepParameters(), PanelState(concurrency=0))


def test_the_server_to_start_can_take_every_rule() -> None:
    base = SweepParameters(num_steps=2, lazy_window=32)
    for threshold in (None, 0, 9):
        config = server_to_start(base, PanelState(path="v1", rule=Rule(threshold=threshold), concurrency=0))
        assert (config.path, config.rule) == ("v1", Rule(threshold=1, lazy_window=32))
        assert (config.model, config.draft) == (str(pair.target_dir()), str(pair.draft_dir()))
        assert config.num_draft_tokens == 3
    plain = server_to_start(base, PanelState(path="none-sync"))
    assert (plain.path, plain.draft, plain.overlap) == ("none", None, False)


def test_a_servers_rule_is_read_back_as_it_was_set() -> None:
    rule = Rule(threshold=8, enable_threshold=3, dwell=2, sync="stale")
    assert rule_of({"dynamic": True, "ranges": None, "lazy_window": None, **rule_changes(rule)}) == rule
    assert rule_of({"dynamic": False, "threshold": None}) is None
    assert rule_of({"dynamic": True, "ranges": [[1, 4]], "threshold": None}) is None


def test_a_notebooks_names_are_its_parameters_and_misspelt_ones_are_refused() -> None:
    asked = LiveParameters.of_namespace({"url": "http://x", "threshold": 7, "prompt_tokens": 9, "In": []})
    assert (asked.url, asked.state().rule.threshold, asked.base.prompt_tokens) == ("http://x", 7, 9)
    with pytest.raises(ParameterError, match="'promt_tokens': did you mean 'prompt_tokens'"):
        LiveParameters.of_namespace({"promt_tokens": 9})
    with pytest.raises(ParameterError, match=r"'treshold'.*of the live notebook alone: url, path, threshold"):
        LiveParameters.of_namespace({"treshold": 9})
    with pytest.raises(ParameterError, match="threshold = -1"):
        LiveParameters.of_namespace({"threshold": -1})


def test_contradicting_parameters_are_named() -> None:
    with pytest.raises(ParameterError, match="max_running_requests=8"):
        as_point(SweepParameters(max_running_requests=8), PanelState(concurrency=9))
