"""The store: finished points never change, damage is set aside, nothing is half-written, one writer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from results.made_up import NONE, finish, plan, points, records, request, steps
from specswitch.results import files, read_run
from specswitch.results.layout import MANIFEST, POINTS, DamagedError, ResultsError, SchemaError
from specswitch.results.lock import BusyError, is_locked, locked
from specswitch.results.store import SetAsideWarning, mark_interrupted, open_store


def measure_all(folder: Path, **plan_fields) -> list[str]:
    """A complete run; returns its point ids."""
    p = plan(**plan_fields)
    with open_store(folder, request(p)) as store:
        for point in points(p):
            finish(store, point)
    return [point.point_id for point in points(p)]


def test_a_run_is_written_and_read_back(tmp_path: Path) -> None:
    ids = measure_all(tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert run.status == "complete"
    assert run.error is None
    assert [p["point_id"] for p in run.points] == ids
    assert run.missing == []
    assert run.requests(ids[0]) == records()
    assert run.steps(ids[0]) == steps()
    assert run.manifest["provenance"]["packages"]["sglang"]


def test_a_finished_point_never_changes(tmp_path: Path) -> None:
    p = plan()
    with open_store(tmp_path, request(p)) as store:
        finish(store, points(p)[0])
        with pytest.raises(ResultsError, match="never changes"):
            finish(store, points(p)[0])


def write_one(folder: Path, output_tok_s: Callable[[], float]) -> None:
    """A run that stores one point, whose number is computed after its raw records were written."""
    with open_store(folder, request()) as store:
        point_id = points(plan())[0].point_id
        raw = store.write_raw(point_id, records(), steps())
        store.write_point(point_id, {"output_tok_s": output_tok_s()}, raw)


def test_raw_records_survive_a_failing_metric(tmp_path: Path) -> None:
    """Field case B2: the records are on the disk before any number is computed."""
    p = plan()
    point_id = points(p)[0].point_id
    with pytest.raises(ZeroDivisionError):
        write_one(tmp_path, lambda: 1 / 0)
    run = read_run(tmp_path)
    assert run.status == "failed"
    assert run.error == "division by zero"
    assert run.requests(point_id) == records()
    with pytest.warns(SetAsideWarning, match="damaged-1"), open_store(tmp_path, request(p), resume=True):
        pass
    assert (tmp_path / POINTS / f"{point_id}.damaged-1" / "requests.parquet").is_file()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [cut, alter, empty, Path.unlink])
@pytest.mark.parametrize("name", ["point.json", "requests.parquet", "steps.parquet"])
def test_a_damaged_point_is_set_aside_and_only_it_is_missing(tmp_path: Path, name: str, harm) -> None:
    ids = measure_all(tmp_path)
    harm(tmp_path / POINTS / ids[1] / name)
    seen = read_run(tmp_path)
    assert [p["point_id"] for p in seen.missing] == [ids[1]]
    assert len(seen.problems) == 1
    with (
        pytest.warns(SetAsideWarning, match=rf"{ids[1]}\.damaged-1"),
        open_store(tmp_path, request(), resume=True) as store,
    ):
        assert store.finished == set(ids) - {ids[1]}
    assert (tmp_path / POINTS / f"{ids[1]}.damaged-1").is_dir()


def test_damage_twice_keeps_both(tmp_path: Path) -> None:
    ids = measure_all(tmp_path)
    for _ in range(2):
        cut(tmp_path / POINTS / ids[0] / "point.json")
        with pytest.warns(SetAsideWarning), open_store(tmp_path, request(), resume=True) as store:
            finish(store, points(plan())[0])
    kept = {p.name for p in (tmp_path / POINTS).iterdir()}
    assert {ids[0], f"{ids[0]}.damaged-1", f"{ids[0]}.damaged-2"} <= kept


def bare_object(path: Path) -> None:
    path.write_text('{"schema_version": 1}', encoding="utf-8")


@pytest.mark.parametrize("resume", [True, False])
@pytest.mark.parametrize("harm", [Path.unlink, cut, empty, bare_object])
def test_finished_points_whose_manifest_is_lost_are_never_given_a_new_one(
    tmp_path: Path, harm: Callable[[Path], None], resume: bool
) -> None:
    ids = measure_all(tmp_path)
    harm(tmp_path / MANIFEST)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(ResultsError) as refused, open_store(tmp_path, request(), resume=resume):
        pass
    if resume or harm is Path.unlink:
        there = "is missing" if harm is Path.unlink else "cannot be read"
        said = f"{tmp_path / MANIFEST} {there}, but finished points lie beside it ({len(ids)}): put the manifest back"
        assert str(refused.value).startswith(said)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_damaged_manifest_without_points_is_set_aside(tmp_path: Path) -> None:
    with open_store(tmp_path, request()):
        pass
    cut(tmp_path / MANIFEST)
    with pytest.raises(DamagedError, match=MANIFEST):
        read_run(tmp_path)
    with pytest.warns(SetAsideWarning), open_store(tmp_path, request(), resume=True):
        pass
    assert (tmp_path / f"{MANIFEST}.damaged-1").is_file()
    assert read_run(tmp_path).status == "complete"


def test_an_existing_run_is_not_touched_without_resume(tmp_path: Path) -> None:
    measure_all(tmp_path)
    before = (tmp_path / MANIFEST).read_bytes()
    with pytest.raises(ResultsError, match="--resume"), open_store(tmp_path, request()):
        pass
    assert (tmp_path / MANIFEST).read_bytes() == before


def test_another_measurement_is_refused_and_named(tmp_path: Path) -> None:
    """Field case B9: changing the dataset without a new run is refused."""
    measure_all(tmp_path)
    other = request(plan(dataset="random"))
    difference = r"workload\.dataset: 'pydocs' -> 'random'"
    with pytest.raises(ResultsError, match=difference), open_store(tmp_path, other, resume=True):
        pass
    assert read_run(tmp_path).status == "complete"


def test_the_grid_may_grow(tmp_path: Path) -> None:
    ids = measure_all(tmp_path)
    with open_store(tmp_path, request(plan(concurrencies=(1, 2, 4))), resume=True) as store:
        assert store.finished == set(ids)
    run = read_run(tmp_path)
    assert [p["concurrency"] for p in run.missing] == [4, 4]
    assert len(run.manifest["resumed"]) == 1


def test_the_grid_may_not_shrink(tmp_path: Path) -> None:
    measure_all(tmp_path)
    with (
        pytest.raises(ResultsError, match="another measurement"),
        open_store(tmp_path, request(plan(arms=(NONE,))), resume=True),
    ):
        pass


def test_another_schema_version_is_refused_with_a_cure(tmp_path: Path) -> None:
    measure_all(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "schema_version": 2}), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"schema version 2, this program reads and writes 1: read it"):
        read_run(tmp_path)
    with pytest.raises(SchemaError), open_store(tmp_path, request(), resume=True):
        pass


def test_a_nan_never_reaches_the_disk(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_one(tmp_path, lambda: float("nan"))
    assert list((tmp_path / POINTS).rglob("point.json")) == []


def no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_a_clear_error_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = points(plan())[:2]

    def run_until_the_disk_is_full() -> None:
        with open_store(tmp_path, request()) as store:
            finish(store, first)
            monkeypatch.setattr(os, "fsync", no_space)
            finish(store, second)

    with pytest.raises(ResultsError, match="disk is full: free some space"):
        run_until_the_disk_is_full()
    monkeypatch.undo()
    assert not (tmp_path / POINTS / second.point_id).exists()
    assert [f.name for f in tmp_path.rglob(".*") if f.name != ".lock"] == []
    run = read_run(tmp_path)
    assert [x["point_id"] for x in run.points] == [first.point_id]
    assert run.status == "failed"


def test_too_little_space_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**20))
    with pytest.raises(ResultsError, match="only 1 MiB are free"), open_store(tmp_path / "new", request()):
        pass
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written_is_refused_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(files.tempfile, "NamedTemporaryFile", read_only)
    with (
        pytest.raises(ResultsError, match="read-only: choose another output folder"),
        open_store(tmp_path / "new", request()),
    ):
        pass
    assert not (tmp_path / "new").exists()


def test_a_file_in_the_way_is_refused_with_a_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with (
        pytest.raises(ResultsError, match="choose another"),
        open_store(tmp_path / "file" / "run", request()),
    ):
        pass


HOLD = """
import sys, time
from pathlib import Path
from specswitch.results.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_writers_never_share_a_folder_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    """Field case C11."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert is_locked(tmp_path)
        with pytest.raises(BusyError, match=f"process {other.pid}"), open_store(tmp_path, request()):
            pass
        assert not (tmp_path / MANIFEST).exists()
        other.kill()
        other.wait()
    assert not is_locked(tmp_path)
    with open_store(tmp_path, request()):
        assert is_locked(tmp_path)


def test_a_killed_run_reads_as_failed_and_can_be_marked_so(tmp_path: Path) -> None:
    measure_all(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    text = json.dumps({**manifest, "status": "running"})
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    with locked(tmp_path):
        assert read_run(tmp_path).status == "running"
    assert read_run(tmp_path).status == "failed"
    mark_interrupted(tmp_path, "the kernel died")
    assert read_run(tmp_path).error == "the kernel died"
    assert json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))["status"] == "failed"


def test_a_complete_run_is_never_marked_failed(tmp_path: Path) -> None:
    measure_all(tmp_path)
    mark_interrupted(tmp_path, "the kernel died")
    assert read_run(tmp_path).status == "complete"


def test_what_is_stored_names_no_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case C17."""
    monkeypatch.setenv("HOME", "/home/somebody")
    run = tmp_path / "a run é"
    with open_store(run, request(plan(), out_dir=str(run), model="/home/somebody/m")) as store:
        finish(store, points(plan())[0])
        store.add_server({"name": "none", "argv": [sys.executable, "--model", "/home/somebody/m"]})
    texts = [p.read_text(encoding="utf-8") for p in run.rglob("*.json")]
    assert len(texts) == 2
    for text in texts:
        assert str(tmp_path) not in text
        assert "/home/somebody" not in text
        assert sys.prefix not in text
    manifest = read_run(run).manifest
    assert manifest["parameters"] == {"out_dir": "$RUN", "model": "$HOME/m"}
    assert manifest["servers"][0]["argv"][1:] == ["--model", "$HOME/m"]
