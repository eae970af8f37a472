"""The plans that come with the notebooks: each is a run that the parameters allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.config import project_root
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.given import read_given, read_yaml
from specswitch.sweep.grid import points
from specswitch.sweep.parameters import SweepParameters

PLANS = sorted((project_root() / "notebooks" / "plans").glob("*.yaml"))


def test_there_are_plans_for_both_devices() -> None:
    assert {plan.stem.split("-")[0] for plan in PLANS} == {"cpu", "gpu"}


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_plan_describes_a_run_with_both_static_settings_or_says_what_off_costs(plan: Path) -> None:
    given = read_yaml(plan)
    parameters = read_given(CrossingParameters if "\nload: " in given else SweepParameters, [], [given])
    loads = len(parameters.concurrencies) if isinstance(parameters, SweepParameters) else 1
    run = points(parameters.plan(), parameters.hold)
    modes = {point.arm.label.split("-")[0] for point in run}
    assert "none" in modes
    assert modes & {"always", "off"}
    assert len(run) == len(parameters.arms) * loads * parameters.repeats
    assert plan.read_text(encoding="utf-8").startswith("# "), "says what it is for"
