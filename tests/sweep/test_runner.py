"""The runner on fake engines started by the real launcher: stored at once, resumed, stopped, never mislabelled."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from specswitch.results import Run, read_run, table
from specswitch.results.layout import POINTS, ResultsError
from specswitch.results.store import SetAsideWarning
from specswitch.serving.errors import (
    EnvironmentRefusedError,
    PreflightError,
    ServerExitedError,
    WorkerClassMismatchError,
)
from specswitch.sweep.measure import PointFailedError, StepLogError, SweepStoppedError
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.progress import Progress
from specswitch.sweep.runner import run_sweep
from sweep.support import gone, servers_left, small

pytestmark = pytest.mark.usefixtures("fake_engines")


def run(asked: SweepParameters, **other: Any) -> Run:
    return run_sweep(
        asked.plan(),
        asked.run_dir(),
        parameters=asked.model_dump(),
        resume=asked.resume,
        hold=asked.held(),
        **other,
    )


def test_a_sweep_stores_every_point_with_what_the_server_says_of_itself(tmp_path: Path) -> None:
    """Field cases A22 and B6 among them: identity from the live server, cold cache in every point."""
    asked = small(tmp_path / "run", arms=["none-sync", "always-v1", "dynamic-v2-t1", "off-v2"])
    told: list[Progress] = []
    stored = run(asked, on_progress=told.append)
    assert stored.status == "complete"
    assert stored.missing == []
    points = table(stored).set_index(["label", "concurrency"])
    assert len(points) == 8
    assert list(points.loc["always-v1", "worker_class"]) == ["EAGLEWorker"] * 2
    assert list(points.loc["always-v1", "spec_v2_env"]) == ["0"] * 2
    assert list(points.loc["dynamic-v2-t1", "worker_class"]) == ["DynamicEAGLEWorkerV2"] * 2
    assert not points.loc["none-sync", "overlap"].any()
    assert points.loc["dynamic-v2-t1", "overlap"].all()
    # The rule was set on the live server, and the steps in the row are those of this very point.
    assert points.loc[("dynamic-v2-t1", 1), "speculated_share_steps"] == 1.0
    assert points.loc[("dynamic-v2-t1", 2), "speculated_share_steps"] < 0.9
    assert points.loc[("off-v2", 1), "speculated_share_steps"] == 0.0
    assert points["accept_length"].isna().tolist() == [r[0] in ("none-sync", "off-v2") for r in points.index]
    assert (points["cached_tokens"] == 0).all()
    assert (points["in_flight_max"] == points.index.get_level_values("concurrency")).all()
    assert (points["failed"] == 0).all()
    assert points["output_tok_s"].min() > 0
    # Three servers for four arms, each with log, command and environment in the manifest; all gone now.
    assert [s["name"] for s in stored.manifest["servers"]] == ["none-sync", "always-v1", "dynamic-v2"]
    assert all(s["argv"] and s["env"] and s["identity"]["nonce"] for s in stored.manifest["servers"])
    assert servers_left() == []
    assert [p.name for p in (tmp_path / "run" / "servers").iterdir() if p.is_dir()] == []
    done = [p for p in told if p.kind == "done"]
    assert [p.done for p in done] == list(range(1, 9))
    assert done[-1].line().startswith("[8/8] ")
    # The raw records are there, and the steps are those between first and last request.
    first = stored.points[0]
    requests, steps = stored.requests(first["point_id"]), stored.steps(first["point_id"])
    assert len(requests) == first["completed"]
    assert min(r.sent_s for r in requests) <= steps[0].t_s <= steps[-1].t_s
    assert len(steps) == first["ratios"]["speculated_share_whole_run"]["den"]


def test_a_key_from_the_environment_reaches_server_and_clients_and_stays_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECSWITCH_API_KEY", "key-of-a-test-5812")
    stored = run(small(tmp_path / "run", arms=["dynamic-v2-t1"], concurrencies=[2]))
    (point,) = stored.points
    assert (stored.status, point["failed"]) == ("complete", 0)
    assert "***" in stored.manifest["servers"][0]["argv"]
    logs = [p.read_text(encoding="utf-8") for p in (tmp_path / "run" / "servers").glob("*.log")]
    assert any(f"api_key='{'*' * len('key-of-a-test-5812')}'" in log for log in logs)
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or b"key-of-a-test-5812" not in path.read_bytes(), path.name


def test_arms_of_a_repeat_share_prompts_and_repeats_do_not(tmp_path: Path) -> None:
    from specswitch.sweep import grid
    from specswitch.sweep.prompting import prompts_of

    points = grid.points(small(repeats=2).plan())
    by_cell = {(p.arm.label, p.concurrency, p.repeat): prompts_of(p) for p in points}
    assert by_cell["none", 1, 0].ids == by_cell["always-v2", 2, 0].ids
    assert by_cell["none", 1, 0].ids[:20] != by_cell["none", 1, 1].ids[:20]


def test_resume_measures_only_what_is_missing_or_damaged(tmp_path: Path) -> None:
    asked = small(tmp_path / "run")
    first = run(asked)
    kept, harmed = first.points[0]["point_id"], first.points[1]["point_id"]
    before = (tmp_path / "run" / POINTS / kept / "point.json").read_bytes()
    (tmp_path / "run" / POINTS / harmed / "requests.parquet").write_bytes(b"cut")
    with pytest.raises(ResultsError, match="--resume"):
        run(asked)
    told: list[Progress] = []
    again = small(tmp_path / "run", resume=True)
    with pytest.warns(SetAsideWarning, match=harmed):
        second = run(again, on_progress=told.append)
    assert [p.name for p in told if p.kind == "done"] == [harmed]
    assert second.status == "complete"
    assert second.missing == []
    assert (tmp_path / "run" / POINTS / kept / "point.json").read_bytes() == before
    # Nothing missing: no server is started at all.
    told.clear()
    run(again, on_progress=told.append)
    assert told == []


def test_hold_one_never_has_two_servers_up(tmp_path: Path) -> None:
    seen: list[int] = []
    asked = small(tmp_path / "run", hold="one", concurrencies=[1], repeats=2)
    stored = run(asked, on_progress=lambda p: seen.append(len(servers_left()) if p.kind == "point" else 0))
    assert stored.status == "complete"
    assert max(seen) == 1
    assert [s["name"] for s in stored.manifest["servers"]] == ["none", "always-v2", "none-2"]


def test_a_server_that_dies_ends_the_sweep_with_its_code_and_last_words(tmp_path: Path) -> None:
    """Field cases C5 and C8: finished points are kept, the end is told at once."""
    asked = small(tmp_path / "run", {"die_in_point": 2})
    with pytest.raises(ServerExitedError, match="exit code 3") as died:
        run(asked)
    assert "scripted death" in str(died.value)
    stored = read_run(tmp_path / "run")
    assert stored.status == "failed"
    assert len(stored.points) == 2
    assert [p["concurrency"] for p in stored.missing] == [2, 2]
    assert "exit code 3" in (stored.error or "")
    assert servers_left() == []
    rest = run(small(tmp_path / "run", {"die_in_point": 2}, resume=True), on_progress=lambda _: None)
    assert rest.status == "complete"


def test_requests_that_all_fail_end_the_sweep_and_their_records_are_kept(tmp_path: Path) -> None:
    with pytest.raises(PointFailedError, match=r"requests failed.*HTTP 500"):
        run(small(tmp_path / "run", {"fail_in_point": 1}))
    stored = read_run(tmp_path / "run")
    assert stored.points == ()
    (folder,) = (tmp_path / "run" / POINTS).iterdir()
    assert {r.outcome for r in stored.requests(folder.name)} == {"failed"}


def test_a_stop_ends_within_the_point_and_keeps_the_finished_ones(tmp_path: Path) -> None:
    """Field case C12: stop at point 2 of 10."""
    stop = threading.Event()
    asked = small(tmp_path / "run", concurrencies=[1, 2, 3, 4, 5], window_s=0.2)

    def stop_in_the_third(progress: Progress) -> None:
        if progress.kind == "point" and progress.done == 2:
            threading.Timer(0.05, stop.set).start()

    with pytest.raises(SweepStoppedError):
        run(asked, stop=stop, on_progress=stop_in_the_third)
    stored = read_run(tmp_path / "run")
    assert len(stored.points) == 2
    assert stored.status == "failed"
    assert "stopped" in (stored.error or "")
    assert servers_left() == []


def test_another_worker_than_asked_is_an_error_and_no_row(tmp_path: Path) -> None:
    """Field case A22."""
    with pytest.raises(WorkerClassMismatchError, match="SomeOtherWorker"):
        run(small(tmp_path / "run", {"worker_class": "SomeOtherWorker"}))
    assert read_run(tmp_path / "run").points == ()
    assert servers_left() == []


def test_a_step_log_that_lost_steps_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specswitch.sweep.measure.LOG_WAIT_S", 0.3)
    with pytest.raises(StepLogError, match=r"counts \d+ decode steps, its log .* has 0"):
        run(small(tmp_path / "run", {"silent_steps": True}))


def test_simulated_acceptance_is_refused_or_labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case A26: a forgotten variable is an error, a wanted one marks every row and the run."""
    simulate = "SGLANG_SIMULATE_ACC_LEN"
    monkeypatch.setenv(simulate, "3")
    with pytest.raises(EnvironmentRefusedError, match=simulate):
        run(small(tmp_path / "forgotten"))
    assert not (tmp_path / "forgotten").exists()
    monkeypatch.delenv(simulate)
    with pytest.raises(EnvironmentRefusedError, match="synthetic=True"):
        run(small(tmp_path / "unlabelled", env=[f"{simulate}=3"]))
    wanted = small(tmp_path / "run", env=[f"{simulate}=3"], synthetic=True, concurrencies=[1])
    stored = run(wanted)
    assert stored.manifest["synthetic"] is True
    assert all(p["synthetic"] for p in stored.points)
    assert stored.manifest["servers"][0]["env"][simulate] == "3"


def test_a_variable_of_an_earlier_run_does_not_reach_the_next_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case A26, second half: SGLANG_ENABLE_SPEC_V2=0 left in the environment."""
    monkeypatch.setenv("SGLANG_ENABLE_SPEC_V2", "0")
    stored = run(small(tmp_path / "run", arms=["always-v2"], concurrencies=[1]))
    assert stored.points[0]["spec_v2_env"] == "1"
    assert stored.points[0]["worker_class"] == "EAGLEWorkerV2"


def test_random_prompts_mark_the_run_synthetic(tmp_path: Path) -> None:
    stored = run(small(tmp_path / "run", arms=["none"], concurrencies=[1], dataset="random"))
    assert stored.manifest["synthetic"] is True
    assert stored.points[0]["synthetic"] is True


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"model": "/no/such/model", "draft": "/no/such/draft"}, "/no/such/model"),
        ({"dataset": "wikipedia"}, "unknown dataset 'wikipedia'"),
        ({"dataset": "file:/no/such.jsonl"}, "no such.jsonl|no file"),
        ({"prompt_tokens": 100_000}, "a context of 100010 tokens"),
        ({"extra_args": ["--no-such-flag"]}, "no-such-flag"),
        ({"port": 31999}, "port 31999 for 2 servers"),
    ],
    ids=str,
)
def test_bad_input_is_refused_before_a_folder_or_a_server_is_made(
    tmp_path: Path, other: dict[str, Any], says: str
) -> None:
    with pytest.raises(PreflightError, match=says):
        run(small(tmp_path / "run", **other))
    assert not (tmp_path / "run").exists()
    assert servers_left() == []


def test_a_log_flood_neither_stalls_the_server_nor_gets_lost(tmp_path: Path) -> None:
    """Field case C9: 80 MB on both streams of the server; each point names its part of the log."""
    lines = 200_000
    stored = run(small(tmp_path / "run", {"noise_lines": lines}, arms=["none"], concurrencies=[1]))
    log = tmp_path / "run" / stored.points[0]["server_log"]["file"]
    assert log.read_bytes().count(b"\nline ") + 1 == 2 * lines
    assert stored.points[0]["server_log"]["start"] == 2 * lines * len(f"line 00000000 {'x' * 180}\n")


def test_the_server_runs_in_another_process_group_and_so_does_its_child(tmp_path: Path) -> None:
    """Field case C6: nothing is left of a helper with a session of its own."""
    run(small(tmp_path / "run", {"helper": True}, arms=["none"], concurrencies=[1]))
    text = (tmp_path / "run" / "servers" / "none.log").read_text(encoding="utf-8")
    helper = int(text.split("helper=")[1].split()[0])
    assert gone(helper)


def test_rows_are_plain_json_without_nan(tmp_path: Path) -> None:
    run(small(tmp_path / "run", arms=["none"], concurrencies=[1]))
    for path in (tmp_path / "run").rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
