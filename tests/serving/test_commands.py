"""serve, state and set from the command line: output, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from serving.support import FAKE_CHILD, clean_environment, runs, wait_for
from specswitch.cli import main
from specswitch.serving.port import free_port, is_free

SHAPE = [
    *("--speculative-num-steps", "3"),
    *("--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4"),
]
PATCHED_MAIN = f"""
    import sys
    program = [sys.executable, {str(FAKE_CHILD)!r}]
    import specswitch.serving.spec as spec
    spec.server_program = lambda: program
    from specswitch.cli import main
    main()
"""


@pytest.fixture
def flags(target: Path, draft: Path) -> list[str]:
    given = ["--model-path", str(target), "--device", "cpu", "--speculative-algorithm", "EAGLE3"]
    return [*given, "--speculative-draft-model-path", str(draft), *SHAPE]


class Serving:
    """`specswitch serve` as a process of its own."""

    def __init__(self, log: Path, options: list[str], flags: list[str], **env: str) -> None:
        self.port = free_port()
        code = textwrap.dedent(PATCHED_MAIN)
        command = [sys.executable, "-c", code, "serve", *options, "--", *flags, "--port", str(self.port)]
        self.log = log
        with open(log, "wb") as f:
            self.process = subprocess.Popen(command, stdout=f, stderr=f, env=clean_environment(**env))

    def wait_until_ready(self) -> str:
        assert wait_for(lambda: "Ready:" in self.output() or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.output()
        return next(line for line in self.output().splitlines() if line.startswith("Ready:"))

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_what_runs_takes_changes_and_ends_clean(
    flags: list[str], tmp_path: Path, how: signal.Signals
) -> None:
    served = Serving(tmp_path / "out", ["--threshold", "4", "--sync", "eager"], flags)
    try:
        line = served.wait_until_ready()
        assert "path=v2 worker=DynamicEAGLEWorkerV2 threshold=4 sync=eager" in line
        pid = int(line.rpartition("pid=")[2])
        url = f"127.0.0.1:{served.port}"
        changed = CliRunner().invoke(main, ["set", url, "threshold=8", "dwell=2"])
        assert changed.exit_code == 0, changed.output
        assert json.loads(changed.output)["threshold"] == 8
        state = CliRunner().invoke(main, ["state", f"http://{url}"])
        assert (json.loads(state.output)["dwell"], state.exit_code) == (2, 0)
        served.process.send_signal(how)
        assert served.process.wait(30) == 0
        assert not runs(pid)
        assert is_free("127.0.0.1", served.port)
        assert "Stopped." in served.output()
    finally:
        served.process.kill()


def test_serve_takes_the_engines_variables_of_the_shell(flags: list[str], tmp_path: Path) -> None:
    served = Serving(tmp_path / "out", [], flags, SGLANG_ENABLE_SPEC_V2="0")
    try:
        assert "path=v1 worker=EAGLEWorker threshold=None" in served.wait_until_ready()
    finally:
        served.process.send_signal(signal.SIGINT)
        served.process.wait(30)


def test_serve_ends_with_the_servers_exit_code(flags: list[str], tmp_path: Path) -> None:
    served = Serving(tmp_path / "out", [], flags)
    pid = int(served.wait_until_ready().rpartition("pid=")[2])
    os.kill(pid, signal.SIGKILL)
    assert served.process.wait(30) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("options", "more", "named"),
    [
        (["--threshold", "-1"], [], "-1"),
        (["--threshold", "2", "--enable-threshold", "4"], [], "enable_threshold=4"),
        (["--sync", "lazy"], [], "--threshold"),
        ([], ["--no-such-flag"], "--no-such-flag"),
        ([], ["--model-path", "/no/such/model"], "/no/such/model"),
        ([], ["--speculative-algorithm", "EAGLE"], "use EAGLE3"),
        (
            ["--log", "/no/such/x.log"],
            ["--port", str(free_port())],
            "error: --log '/no/such/x.log' cannot be written (no such file or directory): give a file in",
        ),
        (["--log", "/proc/x.log"], ["--port", str(free_port())], "--log '/proc/x.log' cannot be written ("),
    ],
)
def test_serve_refuses_bad_input_with_exit_code_2(
    flags: list[str], options: list[str], more: list[str], named: str
) -> None:
    answer = CliRunner().invoke(main, ["serve", *options, "--", *flags, *more])
    assert answer.exit_code == 2, answer.output
    assert named in answer.output


def test_an_enable_threshold_alone_is_refused_in_plain_words(flags: list[str]) -> None:
    answer = CliRunner().invoke(main, ["serve", "--enable-threshold", "4", "--", *flags])
    assert answer.exit_code == 2
    wanted = "switching rule: enable_threshold=4 without threshold: set threshold, too"
    assert answer.output == f"error: {wanted}\n"


def test_serve_refuses_a_busy_port_and_a_simulator(flags: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as s:
        answer = CliRunner().invoke(main, ["serve", "--", *flags, "--port", str(s.getsockname()[1])])
    assert answer.exit_code == 2
    assert "taken" in answer.output
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    answer = CliRunner().invoke(main, ["serve", "--", *flags])
    assert answer.exit_code == 2
    assert "--synthetic" in answer.output


@pytest.mark.parametrize(
    "pair",
    [
        "threshold", "threshold=", "=4", "treshold=4", "threshold=many", "dwell=0", "threshold=--3", "threshold=²",
        "ranges=4", "ranges=[]", "ranges=[1,4]", "ranges=[[4,1]]", "ranges=[[1,8],[8,9]]", "ranges=[[1,4]",
    ],
)  # fmt: skip
def test_set_refuses_bad_pairs_with_exit_code_2(pair: str) -> None:
    answer = CliRunner().invoke(main, ["set", "127.0.0.1:1", pair])
    assert answer.exit_code == 2, answer.output


@pytest.mark.parametrize("verb", [["state"], ["set"]])
@pytest.mark.parametrize(
    "url",
    ["", "http://", "http://[bad", "ftp://x", "not a url", "http://127.0.0.1:99999", "127.0.0.1:port", "h:0"],
)
def test_what_can_be_no_url_is_refused_with_exit_code_2(verb: list[str], url: str) -> None:
    answer = CliRunner().invoke(main, [*verb, url, *(["threshold=4"] if verb == ["set"] else [])])
    assert answer.exit_code == 2, answer.output
    assert f"URL {url!r}: write HOST:PORT or http://HOST:PORT" in answer.output


def test_state_of_nothing_is_exit_code_1() -> None:
    answer = CliRunner().invoke(main, ["state", "127.0.0.1:1"])
    assert answer.exit_code == 1
    assert "127.0.0.1:1" in answer.output


def test_the_help_of_state_says_that_the_first_requests_are_the_servers_own() -> None:
    assert "warm-up" in CliRunner().invoke(main, ["state", "--help"]).output


@pytest.mark.parametrize("verb", ["doctor", "serve", "state", "set"])
def test_every_verb_has_help(verb: str) -> None:
    answer = CliRunner().invoke(main, [verb, "--help"])
    assert answer.exit_code == 0
    assert "Usage:" in answer.output
    assert "URL" in answer.output or "FLAGS" in answer.output
