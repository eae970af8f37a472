"""Batch runs of the real sweep notebook through papermill, on fake engines.

How each ends is judged from outside: exit code, store, processes left.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from specswitch.config import project_root
from specswitch.results import read_run, table
from specswitch.sweep.batch import BAD_INPUT, FAILED, OK, notebook_path, run_batch
from specswitch.sweep.parameters import SweepParameters
from sweep.support import gone, one_line_page, servers_left, small

pytestmark = pytest.mark.usefixtures("fake_engines")
PROGRAM = Path(__file__).parent / "batch_program.py"


def start(out_dir: Path, tricks: dict[str, Any] | None = None, **given: Any) -> subprocess.Popen[str]:
    parameters = json.dumps({"tricks": tricks, **given})
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(out_dir), parameters],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def wait_for(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.05)
    return found


def finished(out_dir: Path) -> int:
    return len(list((out_dir / "points").glob("*/point.json")))


def kernels() -> list[psutil.Process]:
    below = psutil.Process().children(recursive=True)
    return [p for p in below if p.is_running() and "ipykernel_launcher" in p.cmdline()]


def executed(out_dir: Path) -> str:
    return (out_dir / "executed.ipynb").read_text(encoding="utf-8")


def test_f5_a_mini_sweep_through_papermill(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Field cases F5, C2 (effective values kept), C9 (small notebook) and C17 (no folders of this machine)."""
    out, log = tmp_path / "an é run", io.StringIO()
    begun_s = time.monotonic()
    outcome = run_batch(small(out), one_line_page, stream=log)
    took_s = time.monotonic() - begun_s
    assert (outcome.exit_code, outcome.message) == (OK, "complete")
    assert outcome.report == out / "report.html"
    assert took_s < 60  # 20 on a machine that has nothing else to do
    run = read_run(out)
    assert len(table(run)) == 4
    assert run.manifest["parameters"]["window_s"] == 0.2
    assert run.manifest["parameters"]["out_dir"] == "$RUN"
    assert log.getvalue().count("\n") == 4 + 2  # points and servers, no bar
    assert log.getvalue().count(" left\n") == 4 + 2 - 1, "after the last point nothing is left"
    assert "\r" not in log.getvalue()
    text = executed(out)
    assert len(text) < 1_000_000
    for folder in (str(tmp_path), str(project_root()), sys.prefix):
        assert folder not in text
    assert "4/4" in text
    said = capfd.readouterr()
    assert said.err == ""
    assert kernels() == []
    assert servers_left() == []


def test_c5_a_failed_run_keeps_its_points_and_gets_its_page(tmp_path: Path) -> None:
    outcome = run_batch(small(tmp_path / "run", {"die_in_point": 2}), one_line_page, stream=io.StringIO())
    assert outcome.exit_code == FAILED
    assert "exit code 3" in outcome.message
    assert "scripted death" in outcome.message
    assert outcome.report is not None
    assert outcome.report.read_text(encoding="utf-8").startswith("failed 2 ")
    assert "ServerExitedError" in executed(tmp_path / "run")
    assert servers_left() == []


def test_c6_a_killed_kernel_is_a_failure_leaves_nothing_and_can_be_resumed(tmp_path: Path) -> None:
    """kill -9 of the kernel in mid-sweep; a foreign process of the same name as the server's helper lives on."""
    out = tmp_path / "run"
    foreign = subprocess.Popen(["sleep", "600"])
    victims: list[psutil.Process] = []

    def kill_the_kernel() -> None:
        wait_for(lambda: finished(out) == 2)
        victims.extend(servers_left())
        kernels()[0].kill()

    killer = threading.Thread(target=kill_the_kernel)
    killer.start()
    try:
        asked = small(out, {"helper": True}, concurrencies=[1, 2, 3])
        outcome = run_batch(asked, one_line_page, stream=io.StringIO())
        killer.join()
        assert outcome.exit_code == FAILED
        assert outcome.message.startswith("the notebook's kernel died\n")
        helpers = [
            int(log.read_text(encoding="utf-8").split("helper=")[1].split()[0])
            for log in (out / "servers").glob("*.log")
        ]
        assert len(victims) == len(helpers) == 2
        wait_for(lambda: not any(v.is_running() for v in victims), timeout_s=20)
        wait_for(lambda: all(map(gone, helpers)), timeout_s=20)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
    run = read_run(out)
    assert run.status == "failed"
    kept = {p["point_id"]: p["digest"] for p in run.points}
    assert len(kept) >= 2
    again = run_batch(
        small(out, {"helper": True}, concurrencies=[1, 2, 3], resume=True),
        one_line_page,
        stream=io.StringIO(),
    )
    assert again.exit_code == OK
    digests = {p["point_id"]: p["digest"] for p in read_run(out).points}
    assert len(digests) == 6
    assert kept.items() <= digests.items()


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_c6_a_signal_ends_everything_in_order(tmp_path: Path, kind: signal.Signals) -> None:
    out = tmp_path / "run"
    with start(out, {"helper": True}, arms=["none"], concurrencies=[1, 2, 3], window_s=1.0) as program:
        wait_for(lambda: finished(out) == 1)
        below = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(kind)
        said, _ = program.communicate(timeout=60)
    assert program.returncode == FAILED
    message = json.loads(said)["message"]
    assert message.startswith(f"interrupted by {kind.name}\n")
    assert f"of 3 points are kept; go on with: specswitch sweep --resume --out {out}" in message
    wait_for(lambda: not any(p.is_running() for p in below), timeout_s=20)
    assert len(below) >= 4  # kernel, supervisor, server, helper
    run = read_run(out)
    assert run.status == "failed"
    assert len(run.points) >= 1
    assert (out / "report.html").is_file()
    assert (out / "executed.ipynb").is_file()


def test_c10_the_store_does_not_depend_on_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"reports/test-{tmp_path.parent.name}-{os.getpid()}"
    out = project_root() / name
    try:
        places = [tmp_path, project_root() / "notebooks"]
        first = None
        for place in places:
            monkeypatch.chdir(place)
            asked = small(Path(name), resume=True)
            assert run_batch(asked, one_line_page, stream=io.StringIO()).exit_code == OK
            rows = [p["digest"] for p in read_run(out).points]
            first = first or rows
            assert rows == first
            assert len(rows) == 4
        command = ["-m", "papermill", "notebooks/01-sweep.ipynb", str(tmp_path / "out.ipynb")]
        changed = json.dumps(small(Path(name), resume=True).changed())
        subprocess.run(
            [sys.executable, *command, "--cwd", "notebooks", "-y", changed, "--no-progress-bar"],
            cwd=project_root(),
            check=True,
            capture_output=True,
        )
        assert [p["digest"] for p in read_run(out).points] == first
    finally:
        subprocess.run(["rm", "-rf", str(out)], check=True)


def test_c2_under_plain_papermill_an_unknown_name_fails(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(notebook_path(SweepParameters)),
        str(tmp_path / "out.ipynb"),
    ]
    done = subprocess.run(
        [*command, "-p", "treshold", "4", "-p", "out_dir", str(tmp_path / "run"), "--no-progress-bar"],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode != 0
    assert "unknown parameter 'treshold'" in done.stderr
    assert not (tmp_path / "run").exists()


def test_c11_runs_at_once_in_one_folder_never_mix(tmp_path: Path) -> None:
    out = tmp_path / "run"
    programs = [start(out, arms=["none"]) for _ in range(3)]
    ended = [(p.communicate(timeout=120)[0], p.returncode) for p in programs]
    assert sorted(code for _, code in ended) == [OK, BAD_INPUT, BAD_INPUT]
    for said, code in ended:
        if code == BAD_INPUT:
            message = json.loads(said)["message"]
            assert "another run" in message or "holds a run already" in message
    run = read_run(out)
    assert run.status == "complete"
    assert len(run.points) == len(list((out / "points").iterdir())) == 2


def test_a_disk_that_fills_up_is_bad_input_not_a_crash(tmp_path: Path) -> None:
    """The kernel meets the full disk after the first point; what was finished stays whole."""
    full = tmp_path / "full"
    full.mkdir()
    (full / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"sys.path.append({str(Path(__file__).parent / 'site')!r})\n"
        "exec(open(sys.path[-1] + '/sitecustomize.py').read())\n"
        "if any('ipykernel_launcher' in a for a in sys.orig_argv):\n"
        "    from specswitch.results import store\n"
        "    real, points = store.write_atomically, set()\n"
        "    def write(path, content):\n"
        "        points.add(path.parent)\n"
        "        if len(points) > 1:\n"
        "            from specswitch.results.files import saying_why\n"
        "            with saying_why(path):\n"
        "                raise OSError(28, 'No space left on device')\n"
        "        real(path, content)\n"
        "    store.write_atomically = write\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(full), os.environ["PYTHONPATH"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        outcome = run_batch(small(tmp_path / "run"), one_line_page, stream=io.StringIO())
    assert outcome.exit_code == BAD_INPUT
    assert "disk is full: free some space" in outcome.message
    run = read_run(tmp_path / "run")
    assert (run.status, len(run.points), run.problems) == ("failed", 1, ())
    assert len(list((tmp_path / "run" / "points").iterdir())) == 1


def test_a_report_that_breaks_is_a_failure_of_a_complete_run(tmp_path: Path) -> None:
    def broken(_: Path) -> Path:
        raise RuntimeError("no template")

    outcome = run_batch(
        small(tmp_path / "run", arms=["none"], concurrencies=[1]), broken, stream=io.StringIO()
    )
    assert outcome.exit_code == FAILED
    assert outcome.message == "the run is complete; no report: no template"


def test_an_interrupt_with_nothing_left_to_measure_says_what_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = small(out, arms=["none"], concurrencies=[1])
    assert run_batch(asked, one_line_page, stream=io.StringIO()).exit_code == OK

    def interrupted(_: Path) -> Path:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal was lost")

    ended = run_batch(asked.model_copy(update={"resume": True}), interrupted, stream=io.StringIO())
    assert (ended.exit_code, ended.report) == (FAILED, None)
    kept = f"all points (1) are kept; the page is made by: specswitch report {out}"
    assert ended.message == f"interrupted by SIGINT\n{kept}"
    assert read_run(out).status == "complete"


def test_an_interrupt_while_the_input_is_checked_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def checking(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("specswitch.sweep.batch.precheck", checking)
    ended = run_batch(small(tmp_path / "run"), one_line_page, stream=io.StringIO())
    assert (ended.exit_code, ended.message) == (FAILED, "interrupted by SIGTERM: nothing was measured")
    assert not (tmp_path / "run").exists()
