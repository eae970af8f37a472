"""A wheel written again is still a wheel: its RECORD right, its content the same, what was cut gone."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from specswitch.bundle.errors import BundleError
from specswitch.bundle.installer import pip_command
from specswitch.bundle.kernels import Cut, files_to_cut, parse_cut
from specswitch.bundle.repack import repack

from .made_up import KERNEL_FILES, make_wheel, wrong_in_record

KERNELS = ("sglang-kernel", "0.4.2.post2", KERNEL_FILES)


def cut(source: Path, dest: Path, kernels: str) -> dict[str, int]:
    chosen = parse_cut(kernels)
    assert chosen is not None
    dest.parent.mkdir(exist_ok=True)
    return repack(source, dest, lambda names: files_to_cut(names, chosen))


@pytest.mark.parametrize(
    ("kernels", "gone"),
    [
        ("sm90", {"sgl_kernel/sm100/common_ops.abi3.so", "sgl_kernel/flash_ops.abi3.so"}),
        ("sm100", {"sgl_kernel/sm90/common_ops.abi3.so", "sgl_kernel/flash_ops.abi3.so"}),
        ("sm90+fa3", {"sgl_kernel/sm100/common_ops.abi3.so"}),
        ("sm90+sm100", {"sgl_kernel/flash_ops.abi3.so"}),
    ],
)
def test_kernels_are_cut_to_the_gpu(kernels: str, gone: set[str], tmp_path: Path) -> None:
    source = make_wheel(tmp_path, *KERNELS)
    copy = tmp_path / "cut" / source.name
    found = cut(source, copy, kernels)
    assert found == {name: len(KERNEL_FILES[name]) for name in sorted(gone)}
    with zipfile.ZipFile(copy) as archive:
        assert {n for n in archive.namelist() if ".dist-info/" not in n} == set(KERNEL_FILES) - gone
    assert wrong_in_record(copy) == []


def test_pip_installs_a_cut_wheel(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, *KERNELS)
    copy = tmp_path / "cut" / source.name
    cut(source, copy, "sm90")
    pip, environment = pip_command()
    subprocess.run(
        [*pip, "install", "-q", "--no-index", "--no-deps", "--target", str(tmp_path / "site"), str(copy)],
        env=environment,
        check=True,
    )
    there = {str(p.relative_to(tmp_path / "site")) for p in (tmp_path / "site/sgl_kernel").rglob("*.so")}
    assert there == {"sgl_kernel/sm90/common_ops.abi3.so", "sgl_kernel/spatial_ops.abi3.so"}


def test_an_architecture_that_the_wheel_does_not_hold_is_refused(tmp_path: Path) -> None:
    source = make_wheel(tmp_path, *KERNELS[:2], files={"sgl_kernel/sm100/common_ops.abi3.so": b"x"})
    with pytest.raises(BundleError, match="no build for sm90, only for sm100"):
        cut(source, tmp_path / "cut" / source.name, "sm90")


@pytest.mark.parametrize("text", ["", "sm80", "fa3", "sm90+", "sm90,fa3", "ALL"])
def test_an_unknown_choice_of_kernels_names_the_known_ones(text: str) -> None:
    with pytest.raises(BundleError, match=r"sm90 \(Hopper"):
        parse_cut(text)


def test_the_choices_of_kernels() -> None:
    assert parse_cut("all") is None
    assert parse_cut("fa3+sm90") == Cut(frozenset({"sm90"}), fa3=True)


def test_a_repacked_wheel_holds_the_same_whatever_its_times_and_order(tmp_path: Path) -> None:
    first = make_wheel(tmp_path / "a", "first", "1.0", {"first/x.py": b"1", "first/run.sh": b"#!/bin/sh"})
    second = tmp_path / "b" / first.name
    second.parent.mkdir()
    with zipfile.ZipFile(first) as old, zipfile.ZipFile(second, "w") as new:
        new.mkdir("first")
        for name in sorted(old.namelist()):
            new.writestr(zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2)), old.read(name))
    copies = [tmp_path / "1.whl", tmp_path / "2.whl"]
    for source, copy in zip((first, second), copies, strict=True):
        assert repack(source, copy) == {}
    assert copies[0].read_bytes() == copies[1].read_bytes()
    assert wrong_in_record(copies[0]) == []


def test_programs_in_a_wheel_stay_executable(tmp_path: Path) -> None:
    source = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(source, "w") as archive:
        program = zipfile.ZipInfo("x/program")
        program.external_attr = 0o100775 << 16
        archive.writestr(program, b"")
        archive.writestr("x-1.dist-info/RECORD", b"x/program,,\nx-1.dist-info/RECORD,,\n")
    repack(source, tmp_path / "copy.whl")
    with zipfile.ZipFile(tmp_path / "copy.whl") as archive:
        assert archive.getinfo("x/program").external_attr >> 16 == 0o100755
        assert archive.getinfo("x-1.dist-info/RECORD").external_attr >> 16 == 0o100644


@pytest.mark.parametrize("damage", [lambda data: data[:-30], lambda data: b"not a zip file"])
def test_a_damaged_wheel_is_named(damage, tmp_path: Path) -> None:
    source = make_wheel(tmp_path, "first", "1.0")
    source.write_bytes(damage(source.read_bytes()))
    with pytest.raises(BundleError, match=r"first-1.0-py3-none-any.whl .*download it again"):
        repack(source, tmp_path / "copy.whl")


def test_a_wheel_with_a_damaged_file_is_named(tmp_path: Path) -> None:
    source = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/a.py", bytes(range(256)) * 100)
        archive.writestr("x-1.dist-info/RECORD", b"x/a.py,,\nx-1.dist-info/RECORD,,\n")
    data = bytearray(source.read_bytes())
    start = 30 + len("x/a.py")
    data[start : start + 40] = b"\xff" * 40
    source.write_bytes(data)
    with pytest.raises(BundleError, match=r"x-1-py3-none-any.whl cannot be read .*download it again"):
        repack(source, tmp_path / "copy.whl")


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_full_disk_is_not_the_wheels_fault(size: int, tmp_path: Path) -> None:
    source = make_wheel(tmp_path, "first", "1.0", {"first/x.so": b"x" * size})
    with pytest.raises(OSError, match="No space left"):
        repack(source, Path("/dev/full"))
