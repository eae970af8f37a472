"""`specswitch soak` on scripted servers and, in short, on the real engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specswitch.cli import main
from specswitch.results.layout import ResultsError
from specswitch.soak import identity, memory, outcome, run
from sweep.support import gone, servers_left, use_fake_engines

SHORT = ["--requests", "150", "--minutes", "1", "-p", "prompt_tokens", "16", "-p", "output_tokens", "16"]


def soak(out: Path, *more: str, tricks: dict[str, Any] | None = None) -> Result:
    scripted = ["-p", "env", "FAKE_ENGINE=" + json.dumps(tricks)] if tricks else []
    return CliRunner().invoke(main, ["soak", "--out", str(out), *more, *scripted])


def summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "soak.json").read_text(encoding="utf-8"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    use_fake_engines(monkeypatch)


@pytest.mark.usefixtures("fake")
def test_a_sound_server_passes_on_both_paths(tmp_path: Path) -> None:
    answer = soak(tmp_path / "s", *SHORT)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines()[-1] == str(tmp_path / "s" / "soak.json")
    found = summary(tmp_path / "s")
    assert found["passed"]
    assert list(found["paths"]) == ["v1", "v2"]
    for path in found["paths"].values():
        assert (path["requests"], path["failed"], path["ended_by"]) == (150, 0, "requests")
        assert path["finished"] + path["aborted"] + path["hung_up"] == 150
        assert path["switches"] > 0
        assert path["compared"] > 0
        assert (path["different"], path["tokens_left_when_idle"], path["flushed"]) == (0, 0, True)
    assert str(tmp_path) not in json.dumps(found)
    assert servers_left() == []


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("tricks", "named"),
    [
        ({"die_after": 60}, "exit code 3"),
        ({"tokens_left": 7}, "7 KV slots in use when idle"),
    ],
)
def test_a_faulty_server_fails_with_the_reason(tmp_path: Path, tricks: dict[str, Any], named: str) -> None:
    answer = soak(tmp_path / "s", *SHORT, "--path", "v2", tricks=tricks)
    assert answer.exit_code == 1, answer.output
    assert "FAILED" in answer.stdout
    assert named in answer.stdout
    found = summary(tmp_path / "s")
    assert not found["passed"]
    assert any(named in fault for fault in found["paths"]["v2"]["faults"])
    assert servers_left() == []


@pytest.mark.usefixtures("fake")
def test_a_server_that_keeps_memory_of_every_request_fails_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SAMPLE_S", 0.01)
    monkeypatch.setattr(memory, "WARM_UP_REQUESTS", 0)
    many = ["--requests", "1500", "--minutes", "1", *SHORT[4:]]
    answer = soak(tmp_path / "s", *many, "--path", "v2", tricks={"kept_kib": 64})
    assert answer.exit_code == 1, answer.output
    found = summary(tmp_path / "s")["paths"]["v2"]
    grown = found["memory_mib_per_1000_requests"]
    assert grown["verdict"] == "grows", grown
    assert grown["slope"] == pytest.approx(sum(grown["by_process"].values()))
    assert any(fault.startswith(f"memory grows by {grown['slope']:.2f}") for fault in found["faults"])
    assert max(grown["by_process"].values()) > 60


@pytest.mark.usefixtures("fake")
def test_a_token_that_the_plain_server_would_not_say_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = identity._answers

    async def other(*args: Any) -> list[tuple[int, ...]]:
        return [(-1, *ids[1:]) for ids in await asked(*args)]

    monkeypatch.setattr(identity, "_answers", other)
    monkeypatch.setattr(identity, "score", lambda url, prompt, ids, *_: ([-2.0] * len(ids), [0.0] * len(ids)))
    answer = soak(tmp_path / "s", *SHORT, "--path", "v2")
    assert answer.exit_code == 1, answer.output
    found = summary(tmp_path / "s")["paths"]["v2"]
    assert found["different"] == found["compared"] > 0
    assert "different from token 0, widest gap 2 nats" in answer.stdout


@pytest.mark.usefixtures("fake")
def test_a_folder_that_can_no_longer_be_written_loses_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = outcome.write_json

    def full(path: Path, data: dict[str, Any]) -> None:
        if path.is_relative_to(tmp_path / "s"):
            raise ResultsError(f"cannot write {path}: the disk is full: free some space")
        write(path, data)

    monkeypatch.setattr(outcome, "write_json", full)
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    answer = soak(tmp_path / "s", *SHORT)
    assert answer.exit_code == 1, answer.output
    (instead,) = (tmp_path / "t").glob("specswitch-rescued-*")
    assert f"free some space. What was measured is in {instead} instead" in answer.stderr
    assert summary(instead)["passed"]
    assert list(summary(instead)["paths"]) == ["v1", "v2"]
    assert "v1: passed" in answer.stdout


def test_an_interrupt_ends_it_at_once_and_leaves_no_server(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        use_fake_engines(patch)
        command = [sys.executable, "-m", "specswitch", "soak", "--path", "v2", "--out", str(tmp_path / "s")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
            log = tmp_path / "s" / "v2.log"
            while len(servers_left()) < 1 or not log.is_file():
                assert process.poll() is None
                time.sleep(0.1)
            time.sleep(3)
            pids = [server.pid for server in servers_left()]
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=30)[1]
            assert process.returncode == 1
            assert "interrupted by SIGINT" in told
    assert pids
    assert all(gone(pid) for pid in pids)


@pytest.mark.usefixtures("fake")
def test_lengths_and_pool_are_those_that_were_given(tmp_path: Path) -> None:
    given = ["-p", "prompt_tokens", "48", "-p", "max_total_tokens", "1024"]
    soak(tmp_path / "s", "--requests", "1", "--path", "v2", *given)
    found = summary(tmp_path / "s")
    assert (found["asked"]["mix"]["longest_prompt"], found["asked"]["mix"]["longest_output"]) == (48, 64)
    assert found["about"]["parameters"]["max_total_tokens"] == 1024


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["-p", "executor", "ray"], "executor"),
        (["-p", "arms", "none"], "arms"),
        (["-p", "max_running_requests", "8"], "max_running_requests=8"),
        (["-p", "output_tokens", "2000"], "output_tokens=2000 need a context of 2"),
        (["-p", "treshold", "4"], "treshold"),
        (
            ["-p", "temperature", "0.5"],
            "temperature=0.5: a soak draws it anew for each request, leave it out",
        ),
        (["-p", "window_s", "7"], "window_s=7.0: a soak does not use this, leave it out"),
        (["-p", "warmup_s", "7"], "warmup_s=7.0"),
        (["-p", "refill", "false"], "refill=False"),
        (["-p", "ignore_eos", "false"], "ignore_eos=False: a soak draws it anew for each request"),
        (["-p", "ttft_limit_ms", "100"], "ttft_limit_ms=100.0"),
        (["-p", "hold", "all"], "hold='all'"),
        (["--requests", "0"], "--requests"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(tmp_path: Path, more: list[str], named: str) -> None:
    answer = soak(tmp_path / "s", *more)
    assert answer.exit_code == 2, answer.output
    assert named in answer.output
    assert not (tmp_path / "s").exists()


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_three_hundred_requests_per_path_on_the_real_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = scored(monkeypatch)
    small = ["-p", "prompt_tokens", "48", "-p", "output_tokens", "20", "-p", "max_total_tokens", "1024"]
    answer = soak(tmp_path / "s", "--requests", "300", "--minutes", "10", *small)
    assert answer.exit_code == 0, answer.output
    for path in summary(tmp_path / "s")["paths"].values():
        assert (path["requests"], path["failed"], path["different"]) == (300, 0, 0)
        assert path["near_ties"] == 0
        assert min(path["hung_up"] + path["aborted"], path["compared"]) >= 5
        assert path["switches"] >= 4
        assert (path["tokens_left_when_idle"], path["flushed"]) == (0, True)
    assert scores["own"] == pytest.approx(scores["best"], abs=1e-3)
    assert scores["wrong"][1][0] - scores["wrong"][0][0] > 1.0


def scored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """While the plain server is up: how it scores its own words, and words with a wrong first token."""
    found: dict[str, Any] = {}
    differing = identity.differing

    def also_score(url: str, kept: Any, timeout_s: float, **more: Any) -> Any:
        if not found:
            one = next(k for k in kept if k.complete and len(k.ids) >= 5)
            found["own"], found["best"] = identity.score(url, one.ask.input_ids, one.ids, timeout_s)
            wrong = [(one.ids[0] + 1) % 2048, *one.ids[1:]]
            found["wrong"] = identity.score(url, one.ask.input_ids, wrong, timeout_s)
        return differing(url, kept, timeout_s, **more)

    monkeypatch.setattr(identity, "differing", also_score)
    return found
