"""`specswitch calibrate` on a scripted server whose step times are known, and on the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from specswitch.calibration import outcome
from specswitch.calibration.outcome import OTHER_LENGTHS
from specswitch.cli import main
from specswitch.engine.policy import load_batch_table
from specswitch.metrics import break_even
from specswitch.results.layout import ResultsError
from specswitch.sweep import warm
from sweep.support import servers_left, use_fake_engines

SMALL = ["-p", "concurrencies", "1,2,4,8", "-p", "repeats", "2", "-p", "prompt_tokens", "8"]
LONG = ["-p", "output_tokens", "200"]  # a busy machine gives the fake server few turns


def calibrate(out: Path, *more: str):
    return CliRunner().invoke(main, ["calibrate", "--out", str(out), *SMALL, *LONG, *more])


def waves_in(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["waves"]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_engines(monkeypatch)


@pytest.mark.usefixtures("fake")
def test_known_step_times_give_their_table(tmp_path: Path) -> None:
    answer = calibrate(tmp_path / "c")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines()[-1] == str(tmp_path / "c" / "batch-table.json")
    found = json.loads((tmp_path / "c" / "calibration.json").read_text(encoding="utf-8"))
    lengths = {int(b): i["mean"] for b, i in found["break_even_accept_length"].items()}
    assert lengths == pytest.approx({1: 1.25, 2: 1.5, 4: 2.0, 8: 3.0})
    assert found["accept_length"] == 2.0
    assert found["speculate"] == [[1, 3]]
    assert found["speculate_at"] == {"1.5": [[1, 1]], "2.0": [[1, 3]], "2.5": [[1, 5]], "3.0": [[1, 7]]}
    assert set(found["speculate_at"]) == {str(a) for a in OTHER_LENGTHS}
    assert len(found["waves"]) == 16
    assert load_batch_table(str(tmp_path / "c" / "batch-table.json")) == ((1, 3),)
    assert str(tmp_path) not in json.dumps(found)
    assert servers_left() == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_servers_log_and_the_step_times_so_far(
    tmp_path: Path, kind: signal.Signals
) -> None:
    out, scratch = tmp_path / "c", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "specswitch", "calibrate", "--out", str(out), *SMALL, *LONG]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "XDG_RUNTIME_DIR": ""},
    ) as program:
        assert program.stderr is not None
        said = ""
        while not said.startswith("batch "):  # the first step times are there
            said = program.stderr.readline()
            assert said, "it ended before"
        assert list(scratch.glob("specswitch-calibrate-*"))
        program.send_signal(kind)
        rest = program.stderr.read()
    assert program.returncode == 1
    assert f"error: interrupted by {kind.name}; step times so far: {out / 'unfinished.json'}" in rest
    assert f"the server's log: {out / 'server.log'}" in rest
    assert sorted(p.name for p in out.iterdir()) == ["server.log", "unfinished.json"]
    assert waves_in(out / "unfinished.json")[0]["batch"] == 1
    assert list(scratch.iterdir()) == []
    assert servers_left() == []


@pytest.mark.usefixtures("fake")
def test_another_accept_length_gives_another_answer_or_no_table(tmp_path: Path) -> None:
    answer = calibrate(tmp_path / "c", "--accept-length", "1.2", "--path", "v1")
    assert answer.exit_code == 0, answer.output
    assert "speculate at no measured batch size" in answer.stdout
    assert answer.stdout.splitlines()[-1] == str(tmp_path / "c" / "calibration.json")
    assert not (tmp_path / "c" / "batch-table.json").exists()


@pytest.mark.usefixtures("fake")
def test_doubtful_step_times_give_no_table_and_take_an_old_one_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "batch-table.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(break_even, "REPEATS_FACTOR", 0.5)
    answer = calibrate(tmp_path / "c")
    assert answer.exit_code == 1, answer.output
    assert "no table from these step times" in answer.stderr
    assert [p.name for p in (tmp_path / "c").glob("*.json")] == ["calibration.json"]
    found = json.loads((tmp_path / "c" / "calibration.json").read_text(encoding="utf-8"))
    assert len(found["doubts"]) == 8


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["-p", "num_steps", "40"], "output_tokens=200"),
        (["-p", "model", "/nowhere"], "without draft"),
        (["-p", "repeats", "0"], "repeats"),
        (["-p", "arms", "none"], "arms=['none']"),
        (["-p", "treshold", "4"], "treshold"),
        (["-p", "window_s", "7"], "window_s=7.0: a calibration does not use this, leave it out"),
        (["-p", "warmup_s", "7"], "warmup_s=7.0"),
        (["-p", "refill", "false"], "refill=False"),
        (
            ["-p", "ignore_eos", "false"],
            "ignore_eos=False: steps of a known batch size need answers of a known length",
        ),
        (["-p", "ttft_limit_ms", "100"], "ttft_limit_ms=100.0"),
        (["-p", "hold", "all"], "hold='all'"),
        (["-p", "max_running_requests", "4"], "max_running_requests=4"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, more: list[str], named: str) -> None:
    answer = calibrate(tmp_path / "c", *more)
    assert answer.exit_code == 2, answer.output
    assert named in answer.output
    assert not (tmp_path / "c").exists()


@pytest.mark.usefixtures("fake")
def test_requests_that_fail_end_it_and_no_server_stays(tmp_path: Path) -> None:
    answer = calibrate(tmp_path / "c", "-p", "env", "FAKE_ENGINE=" + json.dumps({"fail_in_point": 6}))
    assert answer.exit_code == 1, answer.output
    assert "requests failed" in answer.output
    assert not (tmp_path / "c" / "calibration.json").exists()
    assert servers_left() == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("error", [TimeoutError, ConnectionError])
def test_a_server_that_does_not_come_to_rest_ends_it_with_cause_and_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    waits = iter(range(100))

    def wait(*_: Any, **__: Any) -> float:
        if next(waits) == 12:  # eight to warm up
            raise error("http://x still has 3 requests after 60 s")
        return 0.0

    monkeypatch.setattr(warm, "wait_until_idle", wait)
    answer = calibrate(tmp_path / "c")
    assert answer.exit_code == 1, answer.output
    assert (
        "error: http://x still has 3 requests after 60 s: see the log, and calibrate again" in answer.stderr
    )
    assert str(tmp_path / "c" / "server.log") in answer.stderr
    assert len(waves_in(tmp_path / "c" / "unfinished.json")) == 4
    assert servers_left() == []
    assert calibrate(tmp_path / "c").exit_code == 0
    assert not (tmp_path / "c" / "unfinished.json").exists()


@pytest.mark.usefixtures("fake")
def test_a_folder_that_can_no_longer_be_written_loses_no_step_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = outcome.write_json

    def full(path: Path, data: dict[str, Any]) -> None:
        if path.is_relative_to(tmp_path / "c"):
            raise ResultsError(f"cannot write {path}: the disk is full: free some space")
        write(path, data)

    monkeypatch.setattr(outcome, "write_json", full)
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    answer = calibrate(tmp_path / "c")
    assert answer.exit_code == 1, answer.output
    (instead,) = (tmp_path / "t").glob("specswitch-rescued-*")
    assert f"free some space. What was measured is in {instead} instead" in answer.stderr
    assert len(waves_in(instead / "calibration.json")) == 16
    assert "accept length 2.00: speculate at batches 1 to 3" in answer.stdout


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_the_real_engine_is_timed_in_both_modes(tmp_path: Path) -> None:
    sizes = ["-p", "concurrencies", "1,4", "-p", "repeats", "1", "-p", "max_running_requests", "4"]
    answer = CliRunner().invoke(main, ["calibrate", "--out", str(tmp_path / "c"), *sizes])
    assert answer.exit_code == 0, answer.output
    found = json.loads((tmp_path / "c" / "calibration.json").read_text(encoding="utf-8"))
    times = {(w["batch"], w["mode"]): w["step_ms"] for w in found["waves"]}
    assert set(times) == {(b, m) for b in (1, 4) for m in ("plain", "speculative")}
    assert all(times[b, "speculative"] > times[b, "plain"] > 0 for b in (1, 4))
    assert 1.2 < found["accept_length"] < 4.0
