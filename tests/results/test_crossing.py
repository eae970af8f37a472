"""The tables behind the figures of a crossing run, from a stored run whose steps are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.crossing_runs import ARMS, DURATION_S, accept_length_of, write_crossing
from specswitch.metrics.mode_changes import REACH
from specswitch.results import read_run
from specswitch.results.crossing import crossing, rates, recovery, steps_of, target_curve


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return read_run(write_crossing(tmp_path_factory.mktemp("crossing") / "run"))


def test_a_run_knows_its_kind(run):
    assert run.kind == "crossing"
    assert run.status == "complete"


def test_the_target_is_the_shape_as_a_step_function(run):
    assert target_curve(run) == [(0.0, 2), (2.0, 12), (4.0, 2), (6.0, 12), (8.0, 0)]


def test_an_open_loop_has_no_target(tmp_path: Path):
    folder = write_crossing(tmp_path / "run", load="poisson:rate=5,duration=8", labels=("none",))
    assert target_curve(read_run(folder)) == []


def test_steps_are_on_the_clock_of_the_load(run):
    steps = steps_of(run, "dynamic-v2-t4")
    assert 0 <= steps["t_s"].min() < 0.1
    assert steps["t_s"].max() == pytest.approx(DURATION_S, abs=0.1)
    assert set(steps["mode"]) == {"plain", "speculative"}
    assert steps_of(run, "dynamic-v2-t4", repeat=7).empty
    assert steps_of(run, "no-such-arm").empty


def test_rates_hold_every_token_that_arrived_while_the_load_was_driven(run):
    table = rates(run, slices=8)
    first = table[(table["label"] == "none") & (table["repeat"] == 0)]
    assert len(first) == 8
    (point,) = [p for p in run.points if p["label"] == "none" and p["repeat"] == 0]
    assert first["tok_s"].mean() == pytest.approx(point["output_tok_s_load"])
    assert first["t_s"].tolist() == [0.5 + i for i in range(8)], (
        "exactly, or slices of repeats would not meet"
    )


def test_recovery_is_beside_always_on_of_the_same_repeat(run):
    table = recovery(run, length=3)
    rows = table[(table["label"] == "dynamic-v2-t4") & (table["repeat"] == 1)]
    assert rows["step"].tolist() == [1, 2, 3]
    assert (rows["num"] / rows["den"]).tolist() == pytest.approx(
        [accept_length_of("dynamic-v2-t4", step) for step in (1, 2, 3)]
    )
    always = rows["always_num"] / rows["always_den"]
    assert always.tolist() == pytest.approx([accept_length_of("always-v2", 99)] * 3)


def test_without_always_there_is_a_curve_but_nothing_beside_it(tmp_path: Path):
    table = recovery(read_run(write_crossing(tmp_path / "run", labels=("none", "dynamic-v2-t4"))))
    assert len(table)
    assert table["always_den"].isna().all()


def test_the_timeline_is_that_of_the_dynamic_arm_and_changes_are_its_own(run):
    seen = crossing(run)
    assert (seen.shown, seen.threshold) == ("dynamic-v2-t4", 4)
    assert set(seen.changes["label"]) == {"dynamic-v2-t4"}
    assert sorted(set(seen.changes["offset"])) == list(range(-REACH, REACH))
    at_zero = seen.changes[(seen.changes["offset"] == 0) & (seen.changes["to"] == "speculative")]
    assert at_zero["relative"].tolist() == pytest.approx([2.0, 2.0])
    assert len(seen.points) == 2 * len(ARMS)


def test_a_run_without_points_gives_empty_tables(tmp_path: Path):
    seen = crossing(read_run(write_crossing(tmp_path / "run", fail_after=0)))
    assert seen.shown is None
    assert seen.steps.empty
    assert seen.rates.empty
    assert seen.recovery.empty
    assert seen.changes.empty
