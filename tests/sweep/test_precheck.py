"""What is refused before a server is started: lengths that it could not serve, a load that never sends anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from specswitch.serving.errors import PreflightError
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.precheck import precheck

LENGTHS = {"concurrencies": [1], "repeats": 1, "prompt_tokens": 48, "output_tokens": 64}


@pytest.mark.parametrize(
    "load", ["poisson:rate=0.01,duration=2", "burst:low=0,high=0.01,period=1,duration=2"]
)
def test_a_random_load_without_any_arrival_is_refused_with_the_cure(tmp_path: Path, load: str) -> None:
    plan = CrossingParameters.of({"arms": ["none"], "load": load}).plan()
    with pytest.raises(
        PreflightError, match=rf"load '{load}.*nothing arrives in repeat 0: give a higher rate"
    ):
        precheck(plan, tmp_path / "run", hold="one")


def test_a_repeat_without_arrival_is_refused_although_the_first_has_some(tmp_path: Path) -> None:
    parameters = {"arms": ["none"], "load": "poisson:rate=1,duration=2,seed=1", "repeats": 20}
    plan = CrossingParameters.of(parameters).plan()
    assert plan.shape.arrivals(0)
    empty = next(n for n in range(20) if not plan.shape.arrivals(n))
    with pytest.raises(PreflightError, match=f"nothing arrives in repeat {empty}"):
        precheck(plan, tmp_path / "run", hold="one")


@pytest.mark.parametrize(
    ("arm", "limits", "named"),
    [
        ("always-v2", {"context_length": 115}, "context of 116 tokens .*context_length is 115"),
        ("none", {"context_length": 113}, "context of 114 tokens .*context_length is 113"),
        ("none", {"max_total_tokens": 100}, "max_total_tokens is 100: .*at least 114"),
    ],
)
def test_lengths_that_a_server_of_the_plan_cannot_serve_are_refused(
    tmp_path: Path, arm: str, limits: dict[str, int], named: str
) -> None:
    raised = {name: value + 20 for name, value in limits.items()}
    precheck(SweepParameters.of({**LENGTHS, **raised, "arms": [arm]}).plan(), tmp_path / "run", hold="one")
    with pytest.raises(PreflightError, match=named):
        precheck(
            SweepParameters.of({**LENGTHS, **limits, "arms": [arm]}).plan(), tmp_path / "run", hold="one"
        )
