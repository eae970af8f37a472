"""Parameters of a crossing run: those of a sweep without its grid, and a load that is refused when impossible."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.given import read_given
from specswitch.sweep.parameters import ParameterError


def test_the_defaults_make_a_plan_that_crosses_its_threshold() -> None:
    plan = CrossingParameters().plan()
    threshold = plan.arms[-1].rule.threshold
    targets = {plan.shape.target(0.1 * i) for i in range(120)}
    assert min(targets) <= threshold < max(targets)
    assert len(plan.arms) * plan.repeats * plan.shape.duration_s < 180


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        (("load", "sqare:low=1,high=2"), "unknown shape 'sqare'"),
        (("load", "square:low=2,high=12,period=4"), "duration: missing"),
        (("load", "square:low=2,high=99,period=4,duration=8"), "raise max_running_requests"),
        (("load", "trace:file=no/such/trace.txt"), "no file .*trace.txt"),
        (("concurrencies", "1,2"), "unknown parameter 'concurrencies'"),
        (("window_s", "2"), "unknown parameter 'window_s'"),
        (("lod", "x"), "did you mean 'load'"),
        (("arms", "none,none"), "the same arm twice"),
        (
            ("arms", "dynamic-v2-t4,dynamic-v2-t4-stale"),
            "dynamic-v2-t4 leave the sync rule open .*dynamic-v2-t4-lazy",
        ),
        (("measure", "perhaps"), "measure = 'perhaps'"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_with_name_and_value(pair: tuple[str, str], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        read_given(CrossingParameters, [pair]).plan()


def test_a_load_with_commas_is_one_text() -> None:
    load = "ramp:low=1,high=16,duration=20"
    assert read_given(CrossingParameters, [("load", load)]).load == load


def test_sync_rules_are_arms(tmp_path: Path) -> None:
    labels = ["always-v2", "dynamic-v2-t4-lazy", "dynamic-v2-t4-eager", "dynamic-v2-t4-stale"]
    plan = CrossingParameters(arms=labels).plan()
    assert [arm.rule.sync for arm in plan.arms] == [None, "lazy", "eager", "stale"]
