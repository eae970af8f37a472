"""A bundle from end to end: made, carried in chunks, checked and installed by its own script."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from specswitch import __version__
from specswitch.bundle import build, installer, project
from specswitch.bundle.errors import BundleError
from specswitch.bundle.request import Request, plan

from .made_up import MACHINE, PLATFORM, PYTHON, make_wheel, request, run_install, run_python

pytestmark = pytest.mark.usefixtures("small_project")


def make(asked: Request) -> Path:
    build.make(plan(asked), lambda line: None)
    return asked.out


def model(tmp_path: Path) -> Path:
    """A model folder whose weights no compressor makes smaller: several chunks of 1 MB."""
    folder = tmp_path / "tiny model"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "blob").write_bytes(random.Random(1).randbytes(2_500_000))
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    (tmp_path / "present.txt").write_text("torch==2.11.0+cu130\n", encoding="utf-8")
    return make(
        request(
            tmp_path, chunk_mb=1, kernels="sm90", models=(model(tmp_path),), present=tmp_path / "present.txt"
        )
    )


def test_the_manifest_says_what_is_in_there_and_what_is_not(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    versions = {wheel["name"]: wheel["version"] for wheel in manifest["wheels"]}
    assert versions == {
        "first": "1.0",
        "second-one": "2.0",
        "sglang-kernel": "0.4.2.post2",
        "specswitch": __version__,
    }
    assert manifest["left_out"] == [
        {"name": "torch", "version": "2.11.0", "why": "the node has 2.11.0+cu130"}
    ]
    cut = {wheel["name"]: list(wheel["files_cut"]) for wheel in manifest["wheels"] if "files_cut" in wheel}
    assert cut == {
        "sglang-kernel": ["sgl_kernel/flash_ops.abi3.so", "sgl_kernel/sm100/common_ops.abi3.so"],
    }
    assert manifest["node_must_have"] == {}
    assert (manifest["python"], manifest["platform"], manifest["kernels"]) == (PYTHON, PLATFORM, "sm90")
    assert list(manifest["models"].values()) == [2, 2_500_000]


def test_what_the_node_must_have_is_told_and_its_lack_noted_on_the_node(tmp_path: Path) -> None:
    asked = request(tmp_path, without=("torch",))
    make_wheel(
        asked.wheels or tmp_path, "first", "1.0", needs=("torch==2.11.0", "second_one", "not-here-9>1")
    )
    told: list[str] = []
    manifest = build.make(plan(asked), told.append)
    assert manifest["node_must_have"] == {"not-here-9>1": ["first"], "torch==2.11.0": ["first"]}
    assert any(line.endswith("in manifest.json): not-here-9, torch") for line in told)
    done = run_install(asked.out, tmp_path / "sw")
    assert done.returncode == 0, done.stderr
    assert "need what this Python has not: not-here-9" in done.stdout


def test_chunks_are_no_larger_than_asked_and_make_one_stream(bundle: Path) -> None:
    chunks = sorted(bundle.glob("chunk-*"))
    stream = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))["stream"]
    assert stream["chunks"] == len(chunks) >= 3
    assert {chunk.stat().st_size for chunk in chunks[:-1]} == {1_000_000}
    assert 0 < chunks[-1].stat().st_size <= 1_000_000
    whole = b"".join(chunk.read_bytes() for chunk in chunks)
    assert (hashlib.sha256(whole).hexdigest(), len(whole)) == (stream["sha256"], stream["bytes"])
    assert sorted(p.name for p in bundle.iterdir() if p not in chunks) == [
        "SHA256SUMS",
        "install.py",
        "install.sh",
        "manifest.json",
    ]


@pytest.mark.usefixtures("real_project")
def test_installed_packages_entry_points_and_project_work_from_the_target(tmp_path: Path) -> None:
    bundle = make(request(tmp_path, models=(model(tmp_path),)))
    target = tmp_path / "on the node" / "sw"
    done = run_install(bundle, target)
    assert done.returncode == 0, done.stdout + done.stderr
    site = target / "site"
    assert f"export PYTHONPATH='{site}'" in done.stdout
    assert "specswitch doctor" in done.stdout
    assert f"'{target}/models/tiny model'" in done.stdout
    assert run_python(site, "import first, second_one; print(first.VERSION, second_one.VERSION)") == "1.0 2.0"
    where = run_python(
        site,
        "import specswitch; from specswitch.config import project_root; print(specswitch.__file__, project_root())",
    )
    assert where == f"{site}/specswitch/__init__.py {target}"
    plugins = run_python(
        site,
        "from importlib.metadata import distribution as d\n"
        "print(*sorted(f'{e.group}:{e.value}' for e in d('specswitch').entry_points))",
    )
    assert plugins.split() == [
        "console_scripts:specswitch.cli:main",
        "sglang.srt.platforms:specswitch.engine.cpu.bootstrap:activate",
        "sglang.srt.plugins:specswitch.engine.plugin:register",
    ]
    assert (site / "bin" / "specswitch").is_file()
    assert (site / "specswitch/models/data/tiny-target/model.safetensors").is_file()
    assert (target / "models/tiny model/model.safetensors").read_bytes() == (tmp_path / "blob").read_bytes()
    assert {p.name for p in (target / "notebooks").iterdir()} >= {"01-sweep.ipynb", "04-live.ipynb"}
    assert (target / "notebooks" / "plans" / "gpu-8b-v2.yaml").is_file()
    assert sorted(p.name for p in target.iterdir()) == [
        "manifest.json",
        "models",
        "notebooks",
        "pyproject.toml",
        "site",
    ]
    assert [p.name for p in target.parent.iterdir()] == ["sw"]


def test_installing_twice_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "sw"
    assert run_install(bundle, target).returncode == 0
    before = (target / "site").stat().st_mtime_ns
    again = run_install(bundle, target)
    assert again.returncode == 0
    assert "holds this bundle already" in again.stdout
    assert (target / "site").stat().st_mtime_ns == before


def test_a_missing_and_a_damaged_chunk_are_both_named_and_nothing_is_installed(
    bundle: Path, tmp_path: Path
) -> None:
    chunks = sorted(bundle.glob("chunk-*"))
    saved = tmp_path / "saved"
    shutil.copytree(bundle, saved)
    chunks[0].unlink()
    data = bytearray(chunks[1].read_bytes())
    data[500_000] ^= 1
    chunks[1].write_bytes(data)
    target = tmp_path / "node" / "sw"
    done = run_install(bundle, target)
    assert done.returncode == 1
    assert "missing: chunk-000; damaged: chunk-001 (of" in done.stderr
    assert not target.parent.exists()
    for name in ("chunk-000", "chunk-001"):  # copied again, as the message says
        shutil.copyfile(saved / name, bundle / name)
    assert run_install(bundle, target).returncode == 0


@pytest.mark.parametrize("name", ["SHA256SUMS", "install.py", "manifest.json"])
def test_a_file_of_the_bundle_that_did_not_arrive_is_named(name: str, bundle: Path, tmp_path: Path) -> None:
    (bundle / name).unlink()
    done = run_install(bundle, tmp_path / "sw")
    assert done.returncode != 0
    assert name in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "sw").exists()


def test_what_an_interrupted_installation_left_is_cleared_away(bundle: Path, tmp_path: Path) -> None:
    left = tmp_path / ".sw.partial" / "site"
    left.mkdir(parents=True)
    (left / "half.py").write_text("", encoding="utf-8")
    assert run_install(bundle, tmp_path / "sw").returncode == 0
    assert not left.parent.exists()
    assert not (tmp_path / "sw/site/half.py").exists()


def test_two_installations_into_one_target_do_not_mix(bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / ".sw.partial"
    other.mkdir()
    (other / "theirs").write_text("", encoding="utf-8")
    held = os.open(other, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = run_install(bundle, tmp_path / "sw")
    finally:
        os.close(held)
    assert done.returncode == 1
    assert "another installation into" in done.stderr
    assert (other / "theirs").is_file()
    assert not (tmp_path / "sw").exists()


def test_a_node_without_the_named_python_is_told_so(bundle: Path, tmp_path: Path) -> None:
    done = run_install(bundle, tmp_path / "sw", python="/nowhere/python3")
    assert done.returncode == 2
    assert "no /nowhere/python3 here" in done.stderr


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (
            {"libc_ver": ("glibc", "2.9")},
            f"has glibc 2.9, the bundle may need 2.28: .*manylinux_2_9_{MACHINE}",
        ),
        ({"machine": "riscv64"}, f"this machine is riscv64, the bundle is for {MACHINE}"),
    ],
)
def test_another_kind_of_machine_is_refused(
    found: dict[str, object], named: str, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in found.items():
        monkeypatch.setattr(platform, name, lambda value=value: value)
    with pytest.raises(installer.InstallError, match=named):
        installer.install(bundle, tmp_path / "sw")
    assert not (tmp_path / "sw").exists()


def test_a_disk_that_is_too_small_is_found_before_unpacking(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    with pytest.raises(installer.InstallError, match=r"has 1 MiB free, installing takes up to \d+"):
        installer.install(bundle, tmp_path / "sw")
    assert [p.name for p in tmp_path.iterdir() if "sw" in p.name] == []


def test_when_pip_fails_there_is_no_target(tmp_path: Path) -> None:
    """A wheel that the node's pip refuses: it is for another Python."""
    wheels = tmp_path / "wheels"
    asked = request(tmp_path)
    (wheels / "first-1.0-py3-none-any.whl").unlink()
    other = "3.12" if PYTHON == "3.11" else "3.11"
    make_wheel(wheels, "first", "1.0", tag=f"cp{other.replace('.', '')}-none-any")
    bundle = make(Request(**{**vars(asked), "python": other, "without": ("second-one",)}))
    manifest = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))
    refused = run_install(bundle, tmp_path / "sw")
    assert refused.returncode == 1
    assert f"is Python {PYTHON}, this bundle is for {other}" in refused.stderr
    # As if it were for this one, checksums and all: pip is the last to notice.
    text = json.dumps({**manifest, "python": PYTHON})
    sums = (bundle / "SHA256SUMS").read_text(encoding="utf-8")
    old = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    (bundle / "manifest.json").write_text(text, encoding="utf-8")
    sums = sums.replace(old, hashlib.sha256(text.encode()).hexdigest())
    (bundle / "SHA256SUMS").write_text(sums, encoding="utf-8")
    done = run_install(bundle, tmp_path / "sw")
    assert done.returncode == 1
    assert "first-1.0" in done.stderr
    assert "pip ended with exit code 1" in done.stderr
    assert not (tmp_path / "sw").exists()
    assert not (tmp_path / ".sw.partial").exists()


def test_a_target_that_holds_something_else_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "sw"
    target.mkdir()
    (target / "mine").write_text("precious", encoding="utf-8")
    done = run_install(bundle, target)
    assert done.returncode == 1
    assert "is not this bundle: remove it, or choose another target" in done.stderr
    assert [p.name for p in target.iterdir()] == ["mine"]


def test_the_same_inputs_give_the_same_files(tmp_path: Path) -> None:
    asked = request(tmp_path, kernels="sm90", models=(model(tmp_path),), chunk_mb=1)
    first = make(asked)
    kept = {p.name: p.read_bytes() for p in first.iterdir()}
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.is_relative_to(first):
            os.utime(path, (10**9, 10**9))
    second = make(Request(**{**vars(asked), "out": tmp_path / "again"}))
    assert {p.name: p.read_bytes() for p in second.iterdir()} == kept


def test_the_projects_wheel_is_the_same_each_time_and_the_checkout_stays_clean(
    project_wheel: Path, tmp_path: Path
) -> None:
    root = project.checkout()
    before = {p.name for p in root.iterdir()}
    assert project.build_wheel(root, tmp_path).read_bytes() == project_wheel.read_bytes()
    assert {p.name for p in root.iterdir()} == before


def test_wheels_come_from_pip_when_no_folder_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    told: list[str] = []
    asked = request(tmp_path, wheels=None)
    manifest = build.make(plan(asked), told.append)
    assert [wheel["name"] for wheel in manifest["wheels"]] == [
        "first",
        "second-one",
        "sglang-kernel",
        "specswitch",
        "torch",
    ]
    assert "fetching first-1.0-py3-none-any.whl" in told

    (tmp_path / "wheels" / "first-1.0-py3-none-any.whl").unlink()
    with pytest.raises(BundleError, match=r"(?s)could not fetch first==1.0 .*--wheels DIR"):
        make(Request(**{**vars(asked), "out": tmp_path / "second"}))
    assert not (tmp_path / "second").exists()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
