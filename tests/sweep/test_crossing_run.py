"""A crossing run on fake engines started by the real launcher: every arm under the same shape and prompts."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from specswitch.load.shapes import Square
from specswitch.results import Run, table
from specswitch.results.layout import ResultsError
from specswitch.sweep import grid
from specswitch.sweep.batch import OK, dry_run
from specswitch.sweep.crossing_parameters import CrossingParameters
from specswitch.sweep.progress import Progress, lines
from specswitch.sweep.prompting import prompts_of
from specswitch.sweep.runner import run_sweep
from sweep.support import servers_left, small_crossing

pytestmark = pytest.mark.usefixtures("fake_engines")


def run(asked: CrossingParameters, **other: Any) -> Run:
    return run_sweep(
        asked.plan(),
        asked.run_dir(),
        parameters=asked.model_dump(),
        resume=asked.resume,
        hold=asked.held(),
        **other,
    )


def test_every_arm_is_driven_by_the_shape_and_only_the_dynamic_one_switches(tmp_path: Path) -> None:
    told = io.StringIO()
    with lines(told) as tell:
        stored = run(small_crossing(tmp_path / "run"), on_progress=tell)
    assert (stored.kind, stored.status, stored.missing) == ("crossing", "complete", [])
    points = table(stored).set_index("label")
    assert list(points.index) == ["none", "always-v2", "dynamic-v2-t2"]
    assert set(points["shape"]) == {"square:low=1,high=6,period=0.6,duration=1.5"}
    assert set(points["stopped_by"]) == {"end"}
    assert set(points["in_flight_max"]) == {6}
    assert (points["load_ended_s"] - points["load_started_s"]).tolist() == pytest.approx([1.5] * 3)
    # No steady window was asked for: nothing windowed, not even the word.
    for column in ("concurrency", "steady", "window_s", "output_tok_s", "ttft_ms_p99", "switches"):
        assert points[column].isna().all(), column
    assert (points["output_tok_s_load"] > 0).all()
    assert points["switches_whole_run"].tolist()[:2] == [0, 0]
    # Up at 0.3 s and 0.9 s, down at 0.6 s and 1.2 s, and the drain ends low.
    assert points.loc["dynamic-v2-t2", "switches_whole_run"] >= 4
    assert points.loc["dynamic-v2-t2", "resumes"] >= 2
    assert points.loc["dynamic-v2-t2", "accept_length_after_resume"] == 2.0
    assert points.loc["always-v2", "resumes"] == 0
    assert told.getvalue().count("tokens/s") == 3
    assert servers_left() == []


def test_arms_of_a_repeat_share_shape_and_prompts(tmp_path: Path) -> None:
    points = grid.points(small_crossing(repeats=2).plan())
    assert [p.arm.label for p in points] == [
        *("none", "always-v2", "dynamic-v2-t2"),
        *("always-v2", "dynamic-v2-t2", "none"),
    ]
    assert len({p.shape.canonical() for p in points}) == 1
    first, second = points[:3], points[3:]
    assert len({prompts_of(p).ids for p in first}) == 1
    assert prompts_of(first[0]).ids != prompts_of(second[0]).ids
    assert all(p.point_id.startswith(f"{p.arm.label}-square-r{p.repeat}-") for p in points)


def test_an_open_loop_run_keeps_its_due_times(tmp_path: Path) -> None:
    asked = small_crossing(tmp_path / "run", arms=["none"], load="poisson:rate=30,duration=0.8,seed=3")
    stored = run(asked)
    (point,) = stored.points
    shape = asked.plan().loads[0]
    records = sorted(stored.requests(point["point_id"]), key=lambda r: r.request_id)
    due = [r.scheduled_s - point["load_started_s"] for r in records]
    assert due == pytest.approx(list(shape.arrivals(0)))
    assert point["queue_delay_ms_whole_run"]["mean"] >= 0


def test_resume_measures_only_what_is_missing_and_takes_no_other_shape(tmp_path: Path) -> None:
    run(small_crossing(tmp_path / "run", arms=["none"]))
    told: list[Progress] = []
    more = run(
        small_crossing(tmp_path / "run", arms=["none", "always-v2"], resume=True), on_progress=told.append
    )
    assert [p.name.split("-square")[0] for p in told if p.kind == "done"] == ["always-v2"]
    assert more.missing == []
    other = small_crossing(tmp_path / "run", load="ramp:low=1,high=3,duration=1", resume=True)
    with pytest.raises(ResultsError, match="another measurement"):
        run(other)


def test_a_dry_run_tells_the_seconds_of_load_and_starts_nothing(tmp_path: Path) -> None:
    outcome = dry_run(small_crossing(tmp_path / "run", repeats=2))
    assert outcome.exit_code == OK, outcome.message
    assert "6 points, at least 9 s of load, on 3 servers" in outcome.message
    assert not (tmp_path / "run").exists()


def test_a_warm_up_is_load_before_the_point_that_leaves_nothing_in_it(tmp_path: Path) -> None:
    asked = small_crossing(tmp_path / "run", arms=["dynamic-v2-t2"], warmup_s=0.5)
    started_s = time.monotonic()
    stored = run(asked)
    (point,) = stored.points
    assert asked.plan().point(asked.plan().arms[0], asked.plan().server, 0, 0).load_s == 2.0
    # Measured from the first prompt on, on a cold cache, and without the steps of the warm-up.
    assert point["cached_tokens"] == 0
    assert point["load_started_s"] > started_s + 0.5
    assert min(s.t_s for s in stored.steps(point["point_id"])) >= point["load_started_s"]
    assert min(r.request_id for r in stored.requests(point["point_id"])) == 0


def test_a_trace_is_part_of_the_plan_so_that_a_changed_file_is_another_measurement(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_text("0\n0.5\n", encoding="utf-8")
    before = grid.points(small_crossing(load=f"trace:file={file}").plan())[0]
    file.write_text("0\n0.6\n", encoding="utf-8")
    after = grid.points(small_crossing(load=f"trace:file={file}").plan())[0]
    assert before.point_id != after.point_id


def test_a_plan_survives_the_manifest() -> None:
    plan = small_crossing().plan()
    again = type(plan).model_validate_json(json.dumps(plan.model_dump(mode="json")))
    assert again == plan
    assert isinstance(again.loads[0], Square)
