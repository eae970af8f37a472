"""A run for a GPU node: servers start together, each batch size is warmed, no notebook is needed. On fake engines."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from specswitch.cli import main
from specswitch.results import read_run, table
from specswitch.serving import gpus, launch
from specswitch.serving.errors import ServerExitedError
from specswitch.sweep import runner, warm
from specswitch.sweep.bare import run_bare
from specswitch.sweep.batch import BAD_INPUT, FAILED, OK
from specswitch.sweep.measure import PointFailedError
from specswitch.sweep.parameters import ParameterError, SweepParameters
from specswitch.sweep.progress import Progress
from specswitch.sweep.runner import run_sweep
from sweep.support import servers_left, small

pytestmark = pytest.mark.usefixtures("fake_engines", "a_gpu")
ARMS = ["none", "always-v2", "dynamic-v2-t1", "off-v2"]


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """One GPU, as far as the launcher can see, and nobody else on this machine who measures on one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))
    monkeypatch.setattr(gpus, "list_gpus", lambda: [gpus.Gpu(0, "made up", 100_000, 90_000)])


def on_gpu(out_dir: Path, **other: object) -> SweepParameters:
    values = {"model": "shape:llama-8b", "device": "cuda", "dataset": "random", "arms": ARMS, **other}
    return small(out_dir, **values)


def test_servers_start_at_the_same_time(tmp_path: Path) -> None:
    begun_s: list[float] = []
    up_s: list[float] = []

    def timed(config, log, **options):
        begun_s.append(time.monotonic())
        server = launch.launch(config, log, **options)
        up_s.append(time.monotonic())
        return server

    told: list[Progress] = []
    asked = on_gpu(tmp_path / "run", tricks={"sloth_s": 2.0})
    stored = run_sweep(
        asked.plan(), asked.run_dir(), hold=asked.held(), on_progress=told.append, launch=timed
    )
    assert len(begun_s) == 3
    assert max(begun_s) < min(up_s)
    assert [(p.kind, p.name) for p in told[:3]] == [
        ("server", n) for n in ("none", "always-v2", "dynamic-v2")
    ]
    assert stored.status == "complete"
    assert stored.manifest["synthetic"] is True
    assert len(stored.manifest["servers"]) == 3
    assert servers_left() == []


def test_one_that_does_not_start_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_none_starts(config, log, **options):
        if config.path != "none":
            raise ServerExitedError(1, "out of memory", "before it was ready", None)
        return launch.launch(config, log, **options)

    asked = on_gpu(tmp_path / "run", tricks={"sloth_s": 30.0})
    began_s = time.monotonic()
    with pytest.raises(ServerExitedError, match="out of memory"):
        run_sweep(asked.plan(), asked.run_dir(), hold=asked.held(), launch=only_none_starts)
    assert time.monotonic() - began_s < 25, "nobody waits for a server that is of no use any more"
    assert servers_left() == []
    assert list((tmp_path / "run" / "servers").glob("*.steps")) == []


def test_every_batch_size_is_warmed_in_both_modes_before_the_first_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves: list[tuple[str, int]] = []
    real = warm.run_wave

    def noted(url, prompts, tokens, **options):
        waves.append((url, len(prompts)))
        return real(url, prompts, tokens, **options)

    monkeypatch.setattr(warm, "run_wave", noted)
    asked = on_gpu(tmp_path / "run")
    before_points: list[int] = []
    run_sweep(
        asked.plan(),
        asked.run_dir(),
        hold=asked.held(),
        on_progress=lambda p: before_points.append(len(waves)) if p.kind == "point" else None,
    )
    sizes = sorted(sorted(size for u, size in waves if u == url) for url in {u for u, _ in waves})
    assert sizes == [[1, 1, 2, 2], [1, 2], [1, 2]], "a server that can switch runs each size in both modes"
    assert set(before_points) == {len(waves)}


def test_a_run_without_notebook_is_an_ordinary_run_folder(tmp_path: Path) -> None:
    folder, plan = tmp_path / "run", tmp_path / "plan.yaml"
    asked = on_gpu(folder, simulated_accept_length=2.5)
    plan.write_text(
        "".join(f"{k}: {v!r}\n" for k, v in asked.changed().items() if k != "out_dir").replace("True", "true")
        .replace("False", "false"),
        encoding="utf-8",
    )  # fmt: skip
    ended = CliRunner().invoke(main, ["sweep", "--no-notebook", "-f", str(plan), "--out", str(folder)])
    assert ended.exit_code == 0, ended.output
    assert ended.output.splitlines()[-1] == str(folder)
    run = read_run(folder)
    assert run.status == "complete"
    assert run.manifest["synthetic"] is True
    assert len(table(run)) == len(ARMS) * 2
    assert run.manifest["servers"][0]["env"]["SGLANG_SIMULATE_ACC_LEN"] == "2.5"
    assert not (folder / "executed.ipynb").exists()


def test_a_failed_run_keeps_its_points_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, measured = tmp_path / "run", []

    def third_fails(server, point, *rest):
        if len(measured) == 2:
            raise PointFailedError(f"{point.point_id}: scripted")
        measured.append(point.point_id)
        return real(server, point, *rest)

    real = runner.measure
    monkeypatch.setattr(runner, "measure", third_fails)
    failed = run_bare(on_gpu(folder))
    assert failed.exit_code == FAILED
    assert "scripted" in failed.message
    kept = read_run(folder)
    assert kept.status == "failed"
    assert len(kept.missing) == len(ARMS) * 2 - 2
    assert {point["point_id"] for point in kept.missing}.isdisjoint(measured)
    monkeypatch.setattr(runner, "measure", real)
    assert run_bare(on_gpu(folder, resume=True)).exit_code == OK
    assert read_run(folder).missing == []


def test_what_does_not_fit_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    assert run_bare(on_gpu(tmp_path / "run", prompt_tokens=9000)).exit_code == BAD_INPUT
    with pytest.raises(ParameterError, match=r"no shape 'llama-9b': known are llama-8b, moe-30b-a3b"):
        on_gpu(tmp_path, model="shape:llama-9b").plan()
    with pytest.raises(ParameterError, match="a shape brings its own"):
        on_gpu(tmp_path, draft="elsewhere").plan()
    unreadable = CliRunner().invoke(main, ["sweep", "-f", str(tmp_path / "none.yaml")])
    assert unreadable.exit_code == 2
    assert "none.yaml" in unreadable.output
