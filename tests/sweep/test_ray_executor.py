"""Groups of points go out to the nodes of a Ray cluster and come back into one run folder.

The cluster is a local one of two nodes with one core each; the engines are fake. Ray is an optional extra
(`pip install 'specswitch[ray]'`); where it is absent, what needs it is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from specswitch.results import Run, read_run
from specswitch.results.provenance import shorten
from specswitch.serving.errors import PreflightError
from specswitch.sweep import in_notebook
from specswitch.sweep.grid import points
from specswitch.sweep.measure import PointFailedError, SweepStoppedError
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.ray_executor import RayExecutor, groups
from specswitch.sweep.runner import run_sweep
from sweep.support import FAKE_ENGINE, small, use_fake_engines

ARMS = ["none", "always-v2", "dynamic-v2-t1", "off-v2"]


def test_a_group_is_the_points_of_one_server_and_repeat() -> None:
    asked = small(arms=ARMS, repeats=2)
    found = groups(points(asked.plan(), "one"))
    labels = [{(p.repeat, p.arm.label) for p in group} for group in found]
    for repeat in (0, 1):
        assert {(repeat, "dynamic-v2-t1"), (repeat, "off-v2")} in labels
        assert {(repeat, "none")} in labels
        assert {(repeat, "always-v2")} in labels
    assert len(labels) == 6
    assert sorted(p.point_id for g in found for p in g) == sorted(p.point_id for p in points(asked.plan()))


def test_groups_do_not_depend_on_who_takes_turns() -> None:
    plan = small(arms=ARMS, repeats=2).plan()
    by_turns, one_by_one = (groups(points(plan, hold)) for hold in ("all", "one"))
    assert sorted(sorted(p.point_id for p in g) for g in by_turns) == sorted(
        sorted(p.point_id for p in g) for g in one_by_one
    )


def test_without_ray_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PreflightError, match=r"pip install 'specswitch\[ray\]'"):
        RayExecutor()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a Ray cluster of two nodes on this machine, whose servers are fake engines."""
    pytest.importorskip("ray", reason="the optional extra is not installed: pip install 'specswitch[ray]'")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        use_fake_engines(patch)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        started = Cluster()
        try:
            for _ in range(2):
                started.add_node(num_cpus=1, object_store_memory=80 * 2**20, include_dashboard=False)
            started.wait_for_nodes()
            yield started.address
        finally:
            started.shutdown()


def run(asked: SweepParameters, address: str, **other: Any) -> Run:
    return run_sweep(
        asked.plan(),
        asked.run_dir(),
        parameters=asked.model_dump(),
        resume=asked.resume,
        hold=asked.held(),
        executor=RayExecutor(address),
        **other,
    )


def engines() -> list[psutil.Process]:
    """Fake engines anywhere on this machine: a node's processes are not below this one."""
    return [p for p in psutil.process_iter(["cmdline"]) if str(FAKE_ENGINE) in (p.info["cmdline"] or [])[1:2]]


def wait_until_no_engine_runs() -> None:
    deadline_s = time.monotonic() + 30
    while engines() and time.monotonic() < deadline_s:
        time.sleep(0.2)
    assert engines() == []


@pytest.mark.timeout(300)
def test_two_nodes_measure_at_the_same_time_and_one_folder_holds_it_all(cluster: str, tmp_path: Path) -> None:
    asked = small(tmp_path / "run", arms=ARMS, repeats=2, window_s=0.5)
    stored = run(asked, cluster)
    assert stored.status == "complete"
    assert stored.missing == []
    assert stored.problems == ()
    assert len(stored.points) == 16
    servers = {s["name"]: s for s in stored.manifest["servers"]}
    assert sorted(servers) == ["always-v2", "always-v2-2", "dynamic-v2", "dynamic-v2-2", "none", "none-2"]
    assert len({s["node"] for s in servers.values()}) == 2
    for point in stored.points:
        server = servers[point["server"]]
        assert server["identity"]["worker_class"] == point["worker_class"]
        assert (stored.folder / point["server_log"]["file"]).is_file()
        assert point["server_log"]["file"] == server["log"]
        assert len(stored.requests(point["point_id"])) >= point["completed"] > 0
        assert stored.steps(point["point_id"])
    spans = [
        (servers[p["server"]]["node"], p["window_start_s"], p["window_end_s"])
        for p in stored.points
        if p["window_end_s"] is not None
    ]
    assert any(a[0] != b[0] and a[1] < b[2] and b[1] < a[2] for a in spans for b in spans)
    for node in {s[0] for s in spans}:
        mine = sorted(s[1:] for s in spans if s[0] == node)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))
    assert "specswitch-task-" not in str(shorten(stored.manifest))
    wait_until_no_engine_runs()


@pytest.mark.timeout(300)
def test_a_failed_task_ends_the_run_and_what_was_sent_is_kept(cluster: str, tmp_path: Path) -> None:
    asked = small(tmp_path / "run", {"die_in_point": 2}, arms=["none", "always-v2"], window_s=0.5)
    with pytest.raises(PointFailedError, match="ServerExitedError"):
        run(asked, cluster)
    kept = read_run(tmp_path / "run")
    assert kept.status == "failed"
    assert "ServerExitedError" in kept.error
    assert 1 <= len(kept.points) <= 2
    wait_until_no_engine_runs()


@pytest.mark.timeout(300)
def test_a_stopped_run_leaves_no_server_and_goes_on_later(cluster: str, tmp_path: Path) -> None:
    stop = threading.Event()
    asked = small(tmp_path / "run", arms=ARMS, window_s=0.5)
    with pytest.raises(SweepStoppedError):
        run(asked, cluster, stop=stop, on_progress=lambda p: stop.set() if p.kind == "done" else None)
    kept = {p["point_id"] for p in read_run(tmp_path / "run").points}
    assert 1 <= len(kept) < 8
    wait_until_no_engine_runs()
    again = run(small(tmp_path / "run", arms=ARMS, window_s=0.5, resume=True), cluster)
    assert again.status == "complete"
    assert kept < {p["point_id"] for p in again.points}
    wait_until_no_engine_runs()


DRIVER = """
    import sys
    from pathlib import Path
    from sweep.support import small
    from sweep.test_ray_executor import run
    run(small(Path(sys.argv[2]), arms=["none", "always-v2"], repeats=3, window_s=5.0), sys.argv[1])
"""


@pytest.mark.timeout(300)
def test_a_killed_driver_leaves_no_server(cluster: str, tmp_path: Path) -> None:
    """A worker that loses its driver is killed by Ray, and would take the server's supervisor with it."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", textwrap.dedent(DRIVER), cluster, str(tmp_path / "run")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as driver:
        while len(engines()) < 2:
            assert driver.poll() is None
            time.sleep(0.2)
        driver.kill()
    wait_until_no_engine_runs()


@pytest.mark.timeout(300)
def test_the_parameter_takes_a_notebook_to_the_cluster(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    stored = in_notebook.measure(small(tmp_path / "run", arms=["none"], executor="ray", hold="auto"))
    assert stored.status == "complete"
    assert [s["node"] for s in stored.manifest["servers"]] != []


@pytest.mark.timeout(120)
def test_no_node_with_the_gpus_that_a_server_needs_is_refused(cluster: str) -> None:
    import ray

    executor = RayExecutor(cluster)
    server = small().plan().server.model_copy(update={"device": "cuda", "tp": 2})
    with executor._connected():
        assert ray.is_initialized()
        with pytest.raises(PreflightError, match="tp=2: no node"):
            executor._needs(server)
        assert executor._needs(small().plan().server) == {"num_cpus": 1.0}
    assert not ray.is_initialized()
