"""`specswitch sweep` and `specswitch report` from a shell: bad input ends with code 2 at once, and leaves nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.crossing_runs import write_crossing
from specswitch.config import project_root
from specswitch.results import read_run
from specswitch.results.lock import locked
from specswitch.results.manifest import RunRequest
from specswitch.results.store import open_store
from specswitch.sweep import grid
from sweep.support import small, use_fake_engines

PAIR = project_root() / "lib" / "specswitch" / "models" / "data"


def specswitch(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specswitch", *words],
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **env},
    )


BAD = [
    (["-p", "treshold", "4"], "unknown parameter 'treshold'"),
    (["-p", "resume", "perhaps"], "resume = 'perhaps'"),
    (["-y", "{repeats: .nan}"], "repeats = nan"),
    (["-p", "window_s", "-1"], "window_s = -1"),
    (["-p", "concurrencies", "4096"], "raise max_running_requests"),
    (["-p", "model", "/no/such/dir", "-p", "draft", "/no/such/draft"], "/no/such/dir"),
    (["-p", "model", str(PAIR / "tiny-draft"), "-p", "draft", str(PAIR / "tiny-draft")], "is a draft head"),
    (["-p", "extra_args", "--no-such-flag"], "no-such-flag"),
    (["-p", "device", "cuda"], "no NVIDIA GPU"),
    (["--out", "/proc/specswitch"], "choose another output folder"),
]


@pytest.mark.parametrize(
    ("words", "says"), BAD, ids=lambda v: " ".join(v)[:40] if isinstance(v, list) else ""
)
def test_bad_input_is_refused_quickly(tmp_path: Path, words: list[str], says: str) -> None:
    out = tmp_path / "run"
    given = words if "--out" in words else [*words, "--out", str(out)]
    before = time.process_time(), os.times().children_user
    done = specswitch("sweep", *given)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""
    assert not out.exists()
    # Below 5 s even on a slow machine: measured in processor time, which others on the machine do not change.
    assert os.times().children_user - before[1] < 4


def test_a_busy_port_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["-p", "port", port, "-p", "arms", "none", "--out", str(tmp_path / "run")]
        done = specswitch("sweep", *words)
    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_busy_run_folder_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        done = specswitch("sweep", "--out", str(tmp_path))
    assert done.returncode == 2
    assert f"another run is writing into {tmp_path}" in done.stderr


def test_a_folder_without_a_run_has_no_report(tmp_path: Path) -> None:
    done = specswitch("report", str(tmp_path))
    assert done.returncode == 2
    assert "holds no manifest.json" in done.stderr


def test_an_impossible_limit_or_one_without_a_steady_window_is_refused(tmp_path: Path) -> None:
    below = specswitch("report", str(tmp_path), "--ttft-limit-ms", "-1")
    assert (below.returncode, below.stdout) == (2, "")
    assert "'--ttft-limit-ms': '-1': give a number above 0" in below.stderr
    crossing = specswitch("report", str(write_crossing(tmp_path / "run")), "--tpot-limit-ms", "20")
    assert (crossing.returncode, crossing.stdout) == (2, "")
    assert "no steady window and so no goodput" in crossing.stderr


def test_a_dry_run_shows_points_and_servers_and_starts_nothing(tmp_path: Path) -> None:
    words = [
        "-p",
        "arms",
        "none,dynamic-v2-t4,dynamic-v2-t8",
        "-p",
        "concurrencies",
        "1,8",
        "-p",
        "repeats",
        "2",
    ]
    done = specswitch("sweep", *words, "--dry-run", "--out", str(tmp_path / "run"))
    assert done.returncode == 0
    assert "12 points" in done.stdout
    assert "on 2 servers" in done.stdout
    # 12 points of 0.5 s warm-up, 2 s window and 2 s beside them, two servers at 30 s each: 114 s.
    assert "About 2 min: 12 points of 4.5 s and 2 server starts of 30 s (assumed)." in done.stdout
    assert done.stdout.count("\n  dynamic-v2-t8-c") == 4
    told = "threshold and the rest of the rule: set per point; thresholds measured: 4, 8"
    assert f"\n  dynamic-v2 ({told}): " in done.stdout
    assert "\n  none: " in done.stdout
    assert not (tmp_path / "run").exists()


def test_resume_goes_on_with_the_parameters_of_the_run(tmp_path: Path) -> None:
    """No -p again for --resume; a changed value that would mix two measurements is refused."""
    asked = small(tmp_path, arms=["none", "dynamic-v2-t4"], concurrencies=[3], repeats=2)
    plan = asked.plan()
    with open_store(tmp_path, RunRequest(plan, grid.points(plan), asked.model_dump())):
        pass
    going_on = specswitch("sweep", "--out", str(tmp_path), "--resume", "--dry-run")
    assert going_on.returncode == 0, going_on.stderr
    assert "4 points" in going_on.stdout
    assert all(p.point_id in going_on.stdout for p in grid.points(plan))
    larger = specswitch(
        "sweep", "--out", str(tmp_path), "--resume", "--dry-run", "-p", "concurrencies", "3,4"
    )
    assert "8 points" in larger.stdout
    other = specswitch("sweep", "--out", str(tmp_path), "--resume", "-p", "output_tokens", "9")
    assert other.returncode == 2
    assert "workload.output_tokens: 8 -> 9" in other.stderr


def test_c17_any_locale_any_letter_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Field case C17: the whole way to the page under a C locale, with prompts and a folder of many letters."""
    use_fake_engines(monkeypatch)
    out = tmp_path / "mes résultats"
    prompts = tmp_path / "café.jsonl"
    prompts.write_text('{"text": "' + "café 東京 🚀 " * 60 + '"}\n', encoding="utf-8")
    parameters = (
        f'{{arms: [none], concurrencies: [1], repeats: 1, dataset: "file:{prompts}", prompt_tokens: 16, '
        "output_tokens: 8, warmup_s: 0, window_s: 0.3}"
    )
    done = specswitch(
        *("sweep", "-y", parameters, "--out", str(out)),
        LC_ALL="C",
        PYTHONUTF8="0",
        PYTHONIOENCODING="ascii",
        HF_TOKEN="hf_secret_value",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(out / "report.html")
    run = read_run(out)
    assert run.status == "complete"
    assert run.manifest["plan"]["workload"]["dataset"].endswith("café.jsonl")
    for name in ("report.html", "executed.ipynb", "manifest.json"):
        text = (out / name).read_text(encoding="utf-8")
        assert str(Path.home()) not in text
        assert str(tmp_path) not in text
        assert "hf_secret_value" not in text
    assert specswitch("report", str(out)).stdout.strip() == str(out / "report.html")


def test_resume_without_a_run_is_refused_or_said(tmp_path: Path) -> None:
    nowhere = specswitch("sweep", "--resume")
    assert nowhere.returncode == 2
    assert "--out DIR" in nowhere.stderr
    new = specswitch("sweep", "--resume", "--out", str(tmp_path / "new"), "--dry-run")
    assert new.returncode == 0, new.stderr
    assert f"nothing to resume in {tmp_path / 'new'}: a new run" in new.stderr


@pytest.mark.parametrize("command", ["sweep", "crossing"])
def test_resume_is_refused_where_points_lost_their_manifest(tmp_path: Path, command: str) -> None:
    point = tmp_path / "points" / "none-c1-r0-0123456789ab" / "point.json"
    point.parent.mkdir(parents=True)
    point.write_text("{}", encoding="utf-8")
    done = specswitch(command, "--resume", "--out", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        f"{tmp_path / 'manifest.json'} is missing, but finished points lie beside it (1): put" in done.stderr
    )
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [point]


def test_resume_of_another_kind_of_run_says_which_it_is(tmp_path: Path) -> None:
    crossing = write_crossing(tmp_path / "crossing")
    asked = small(tmp_path / "sweep")
    with open_store(
        tmp_path / "sweep", RunRequest(asked.plan(), grid.points(asked.plan()), asked.model_dump())
    ):
        pass
    for folder, holds, command in (
        (crossing, "crossing", "sweep"),
        (tmp_path / "sweep", "sweep", "crossing"),
    ):
        done = specswitch(command, "--resume", "--out", str(folder))
        assert (done.returncode, done.stdout) == (2, "")
        assert (
            f"{folder} holds a {holds} run, not a {command} run: choose another output folder" in done.stderr
        )
        assert f"go on with: specswitch {holds} --resume --out {folder}\n" in done.stderr


def test_a_page_that_cannot_be_written_is_refused_before_it_is_made(tmp_path: Path) -> None:
    run = str(write_crossing(tmp_path / "run"))
    (tmp_path / "folder").mkdir()
    for out, says in (
        ("/proc/x.html", "cannot write /proc/x.html: "),
        (str(tmp_path / "folder"), "it is a folder: name a file in it"),
        (str(tmp_path / "none" / "x.html"), "No such file or directory: choose another output folder"),
    ):
        before = os.times().children_user
        done = specswitch("report", run, "--out", out)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert os.times().children_user - before < 4  # the page alone takes longer
    assert list((tmp_path / "folder").iterdir()) == []
