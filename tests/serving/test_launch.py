"""A launch from configuration to teardown, with the fake child in the engine's place."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from serving.support import read_pid, runs
from specswitch.config import Rule, ServerConfig
from specswitch.serving import errors
from specswitch.serving.launch import launch
from specswitch.serving.port import is_free

pytestmark = pytest.mark.usefixtures("fake_engine")


def changed(config: ServerConfig, **changes: object) -> ServerConfig:
    return ServerConfig.model_validate(config.model_dump() | changes)


@pytest.mark.parametrize("path", ["none", "v1", "v2"])
def test_a_server_is_launched_proved_used_and_taken_down(
    config: ServerConfig, tmp_path: Path, path: str
) -> None:
    cfg = changed(config, path=path, draft=None if path == "none" else config.draft)
    helper_file = tmp_path / "helper"
    cfg = changed(cfg, env={"FAKE_GRANDCHILD": str(helper_file)})
    log = tmp_path / "run" / "server.log"
    with launch(cfg, log, steps_dir=tmp_path / "steps") as server:
        assert server.identity["path"] == server.state()["path"] == path
        assert server.env_record["set"]["SGLANG_ENABLE_SPEC_V2"] == ("1" if path == "v2" else "0")  # type: ignore[index]
        assert server.info()["internal_states"]
        server.flush()
        pid, helper = server.pid, read_pid(helper_file)
        assert pid is not None
        assert runs(pid)
        assert runs(helper)
        assert server.exit_code is None
        server.raise_if_exited()
    assert not runs(pid)
    assert not runs(helper)
    assert is_free("127.0.0.1", server.port)
    assert (tmp_path / "steps").is_dir()
    server.close()


def test_the_rule_of_a_launched_server_can_be_changed(config: ServerConfig, tmp_path: Path) -> None:
    with launch(changed(config, rule=Rule(threshold=4)), tmp_path / "server.log") as server:
        assert server.identity["worker_class"] == "DynamicEAGLEWorkerV2"
        assert server.set_rule(threshold=8, sync="eager")["threshold"] == 8
        assert server.state()["sync"] == "eager"


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"path": "v1", "worker_class": "EAGLEWorker"}, errors.PathMismatchError),
        ({"nonce": "another"}, errors.NotOurServerError),
        ({"worker_class": "EAGLEWorker"}, errors.WorkerClassMismatchError),
    ],
)
def test_another_server_than_asked_is_an_error_and_is_taken_down(
    config: ServerConfig, tmp_path: Path, state: dict[str, str], error: type[Exception]
) -> None:
    """Field case A22: asked is not got; nothing of it may be measured."""
    pid_file = tmp_path / "helper"
    env = {"FAKE_STATE": json.dumps(state), "FAKE_GRANDCHILD": str(pid_file)}
    with pytest.raises(error):
        launch(changed(config, env=env), tmp_path / "server.log")
    assert not runs(read_pid(pid_file))


def test_a_stock_engine_is_an_error(config: ServerConfig, tmp_path: Path) -> None:
    with pytest.raises(errors.PluginMissingError):
        launch(changed(config, env={"FAKE_STOCK": "1"}), tmp_path / "server.log")


def test_a_server_that_gets_ready_late_is_waited_for(config: ServerConfig, tmp_path: Path) -> None:
    begun = time.monotonic()
    with launch(changed(config, env={"FAKE_READY_AFTER_S": "2"}), tmp_path / "server.log"):
        assert time.monotonic() - begun >= 2


def test_a_server_that_never_gets_ready_ends_at_the_timeout(config: ServerConfig, tmp_path: Path) -> None:
    """Field case C8: it hangs; the timeout holds and nothing is left."""
    pid_file = tmp_path / "helper"
    env = {"FAKE_READY_AFTER_S": "600", "FAKE_GRANDCHILD": str(pid_file)}
    begun = time.monotonic()
    with pytest.raises(errors.ReadyTimeoutError, match="within 4 s"):
        launch(changed(config, env=env, ready_timeout_s=4.0), tmp_path / "server.log")
    assert 4 <= time.monotonic() - begun < 20
    assert not runs(read_pid(pid_file))


def test_a_launch_can_be_stopped_from_another_thread_while_it_waits(
    config: ServerConfig, tmp_path: Path
) -> None:
    pid_file = tmp_path / "helper"
    env = {"FAKE_READY_AFTER_S": "600", "FAKE_GRANDCHILD": str(pid_file)}
    begun = time.monotonic()
    with pytest.raises(errors.ServerExitedError, match="before it was ready"):
        launch(
            changed(config, env=env),
            tmp_path / "server.log",
            on_process=lambda process: threading.Timer(2.0, process.stop).start(),
        )
    assert time.monotonic() - begun < 30
    assert not runs(read_pid(pid_file))


def test_a_process_that_never_listens_ends_at_the_timeout(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case C8: a command that sleeps."""
    monkeypatch.setattr(
        "specswitch.serving.argv.server_program",
        lambda: [sys.executable, "-c", "import time; time.sleep(99)"],
    )
    with pytest.raises(errors.ReadyTimeoutError, match="refused"):
        launch(changed(config, ready_timeout_s=2.0), tmp_path / "server.log")


def test_a_server_that_dies_at_once_is_reported_at_once(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case C8: exit code and log tail, long before the timeout."""
    monkeypatch.setattr(
        "specswitch.serving.argv.server_program",
        lambda: [sys.executable, "-c", "import sys; print('boom'); sys.exit(3)"],
    )
    begun = time.monotonic()
    with pytest.raises(errors.ServerExitedError, match=r"(?s)exit code 3.*boom"):
        launch(config, tmp_path / "server.log")
    assert time.monotonic() - begun < 5


def test_a_server_that_dies_in_use_is_told_by_name(config: ServerConfig, tmp_path: Path) -> None:
    with launch(config, tmp_path / "server.log") as server:
        assert server.pid is not None
        os.kill(server.pid, 9)
        assert server.wait() == -9
        with pytest.raises(errors.ServerExitedError, match="killed by signal 9 while it was in use"):
            server.raise_if_exited()


def test_the_simulator_left_in_the_environment_stops_a_launch(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case A26: set in an early cell, then a normal launch."""
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    with pytest.raises(errors.EnvironmentRefusedError, match="SGLANG_SIMULATE_ACC_LEN"):
        launch(config, tmp_path / "run" / "server.log")
    assert not (tmp_path / "run").exists()


def test_the_path_of_an_earlier_run_does_not_leak(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case A26: SGLANG_ENABLE_SPEC_V2=0 in this process; v2 was asked and is got."""
    monkeypatch.setenv("SGLANG_ENABLE_SPEC_V2", "0")
    with launch(config, tmp_path / "server.log") as server:
        assert server.identity["path"] == "v2"


def test_an_exception_in_the_body_takes_the_server_down(config: ServerConfig, tmp_path: Path) -> None:
    pid = None

    def interrupted_cell() -> None:
        nonlocal pid
        with launch(config, tmp_path / "server.log") as server:
            pid = server.pid
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_cell()
    assert pid is not None
    assert not runs(pid)


def test_a_server_launched_from_a_thread_outlives_the_thread(config: ServerConfig, tmp_path: Path) -> None:
    """A parent-death signal would fire when the launching thread ends; the supervisor must not."""
    with ThreadPoolExecutor(1) as pool:
        server = pool.submit(launch, config, tmp_path / "server.log").result()
    time.sleep(1)
    assert server.state()["path"] == "v2"
    server.close()


def test_a_dwell_without_a_threshold_is_no_difference(config: ServerConfig, tmp_path: Path) -> None:
    with launch(changed(config, rule=Rule(dwell=4, sync="eager")), tmp_path / "server.log") as server:
        assert server.identity["worker_class"] == "EAGLEWorkerV2"


def test_two_launches_at_once_do_not_disturb_each_other(config: ServerConfig, tmp_path: Path) -> None:
    """Field case C11, the launcher's part: own ports, own records, own logs."""
    with ThreadPoolExecutor(2) as pool:
        servers = list(pool.map(lambda i: launch(config, tmp_path / f"{i}.log"), range(2)))
    try:
        assert servers[0].port != servers[1].port
        assert servers[0].identity["nonce"] != servers[1].identity["nonce"]
        servers[0].close()
        assert servers[1].state()["nonce"] == servers[1].identity["nonce"]
    finally:
        for server in servers:
            server.close()


def test_output_goes_to_the_log_not_to_us(
    config: ServerConfig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Field case C9: the cell's own output stays short."""
    with launch(config, tmp_path / "server.log"):
        pass
    out, _ = capfd.readouterr()
    assert out == ""
    assert "supervisor" in (tmp_path / "server.log").read_text(encoding="utf-8")
