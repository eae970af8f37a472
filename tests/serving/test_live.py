"""The real engine, launched, proved, controlled and taken down. One server at a time; each takes half a minute."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import specswitch
from serving.support import clean_environment, runs, wait_for
from specswitch.config import Rule, ServerConfig
from specswitch.serving import control, leftovers
from specswitch.serving.doctor import diagnose
from specswitch.serving.launch import launch, start
from specswitch.serving.port import free_port, is_free
from specswitch.serving.spec import spec_from_flags

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

DATA = Path(specswitch.__file__).parent / "models" / "data"
TARGET, DRAFT = DATA / "tiny-target", DATA / "tiny-draft"
READY_S = 600.0


def config(path: str, **changes: object) -> ServerConfig:
    given = {
        "model": str(TARGET),
        "draft": None if path == "none" else str(DRAFT),
        "path": path,
        "max_running_requests": 4,
        "max_total_tokens": 4096,
        "ready_timeout_s": READY_S,
    }
    return ServerConfig.model_validate(given | changes)


def tree_of(pid: int) -> list[int]:
    """Every process that the record of the server with this pid lists."""
    for path in leftovers.record_dir().glob("*.json"):
        record = leftovers.read_record(path) or {}
        if (record.get("command") or [None])[0] == pid:
            return [p for p, _ in record["processes"]]
    return []


@pytest.mark.parametrize("path", ["none", "v1", "v2"])
def test_launch_prove_control_and_take_down(path: str, tmp_path: Path) -> None:
    """Field case A22: the row's worker class, overlap and top-k come from the running server."""
    rule = Rule() if path == "none" else Rule(threshold=4, dwell=2, sync="lazy")
    with launch(config(path, rule=rule), tmp_path / "server.log", steps_dir=tmp_path / "steps") as server:
        classes = {"none": "TpModelWorker", "v1": "DynamicEAGLEWorker", "v2": "DynamicEAGLEWorkerV2"}
        assert server.identity["worker_class"] == classes[path]
        assert server.identity["overlap"] is (path != "v1")
        assert control.generate(server.url, [5, 6, 7], 16)["meta_info"]["completion_tokens"] == 16
        if path != "none":
            assert "Dynamic speculation disable enabled: threshold=4" in (tmp_path / "server.log").read_text(
                "utf-8"
            )
            assert server.state()["speculative_steps"] > 0
            assert server.set_rule(threshold=0, dwell=1, sync="eager")["threshold"] == 0
            before = server.state()
            control.generate(server.url, [5, 6, 7], 16)
            after = server.state()
            assert after["plain_steps"] > before["plain_steps"]
            assert server.smoke_accept_length() is None  # nothing is verified: no length, not 0 or 1
        server.flush()
        assert list((tmp_path / "steps").glob("steps-rank0.bin"))
        assert server.pid is not None
        pids = tree_of(server.pid)
        assert len(pids) >= 3
    assert not [p for p in pids if runs(p)]
    assert is_free("127.0.0.1", server.port)


OWNER = """
    import sys, time
    from pathlib import Path
    from specswitch.config import ServerConfig
    from specswitch.serving.launch import launch
    server = launch(ServerConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]))
    print(server.pid, server.port, flush=True)
    time.sleep(600)
"""


def test_kill_9_of_the_owner_leaves_nothing_of_the_engine(tmp_path: Path) -> None:
    """Field case C6: the engine's own schedulers re-parent; all are gone within 20 s."""
    command = [sys.executable, "-c", textwrap.dedent(OWNER), config("none").model_dump_json()]
    env = clean_environment(XDG_RUNTIME_DIR=os.environ["XDG_RUNTIME_DIR"])
    with subprocess.Popen(
        [*command, str(tmp_path / "server.log")], stdout=subprocess.PIPE, text=True, encoding="utf-8", env=env
    ) as owner:
        assert owner.stdout is not None
        pid, port = (int(x) for x in owner.stdout.readline().split())
        pids = tree_of(pid)
        assert len(pids) >= 3
        owner.kill()
    begun = time.monotonic()
    assert wait_for(lambda: not [p for p in pids if runs(p)], 20), f"{time.monotonic() - begun:.1f} s"
    assert wait_for(lambda: is_free("127.0.0.1", port), 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "topk", "no_overlap"), list(itertools.product([None, "0", "1"], [1, 2], [False, True]))
)
def test_the_doctor_says_what_the_live_server_then_runs(
    env: str | None, topk: int, no_overlap: bool, tmp_path: Path
) -> None:
    """Field case A22: the whole matrix, with the variable set or unset in the server exactly as given."""
    flags = ["--model-path", str(TARGET), "--device", "cpu", "--port", str(free_port())]
    flags += ["--max-running-requests", "4", "--max-total-tokens", "4096", "--page-size", "1"]
    flags += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(DRAFT)]
    flags += ["--speculative-num-steps", "3", "--speculative-eagle-topk", str(topk)]
    flags += ["--speculative-num-draft-tokens", "4", *(["--disable-overlap-schedule"] if no_overlap else [])]
    shell = clean_environment() | ({} if env is None else {"SGLANG_ENABLE_SPEC_V2": env})
    told = diagnose(flags, shell)
    spec = spec_from_flags(flags, shell=shell, ready_timeout_s=READY_S)
    values = {k: v for k, v in spec.environment.values.items() if k != "SGLANG_ENABLE_SPEC_V2"}
    values |= {} if env is None else {"SGLANG_ENABLE_SPEC_V2": env}
    raw = dataclasses.replace(spec, environment=dataclasses.replace(spec.environment, values=values))
    with start(raw, tmp_path / "server.log") as server:
        found = {k: server.identity[k] for k in ("path", "worker_class", "overlap", "topk", "spec_v2_env")}
    expected = {
        "path": told.path,
        "worker_class": told.worker_class,
        "overlap": told.overlap,
        "topk": topk,
        "spec_v2_env": env,
    }
    assert found == expected, json.dumps(found)
    assert told.path == ("v2" if env in (None, "1") and topk == 1 and not no_overlap else "v1")
