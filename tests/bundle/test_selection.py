"""What goes in and what stays out, and every refusal of `specswitch bundle` before anything slow starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from specswitch.bundle.errors import BundleError
from specswitch.bundle.present import Present, read_present
from specswitch.bundle.selection import Pin, lock_path, read_lock, select
from specswitch.bundle.target import Target
from specswitch.bundle.wheels import pick

from .made_up import make_wheel

NODE = Target("3.12", "manylinux_2_34_x86_64")


def pins(*texts: str) -> tuple[Pin, ...]:
    return tuple(Pin(name, Version(version)) for name, _, version in (t.partition("==") for t in texts))  # type: ignore[arg-type]


def left_out(*texts: str, present: str, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "present.txt").write_text(present, encoding="utf-8")
    chosen = select(pins(*texts), read_present(tmp_path / "present.txt"), ())
    return {pin.name: why for pin, why in chosen.left_out.items()}


def test_what_the_node_has_in_the_locked_version_is_left_out(tmp_path: Path) -> None:
    present = "# comment\nnumpy==2.3.5\nPy_YAML==6.0.4\nclick==8.0\nlocal @ file:///somewhere\n-e git+x\n"
    out = left_out(
        "numpy==2.3.5", "py-yaml==6.0.4", "click==8.5.1", "local==1", present=present, tmp_path=tmp_path
    )
    assert out == {"numpy": "the node has 2.3.5", "py-yaml": "the node has 6.0.4"}


def test_the_gpu_stack_stays_the_nodes_own_in_any_version(tmp_path: Path) -> None:
    stack = (
        "torch==2.11.0",
        "triton==3.6.0",
        "torchaudio==2.11.0",
        "nvidia-cublas==13.1.0.3",
        "cuda-toolkit==13.0.2",
    )
    wanted = ("nvidia-cudnn-frontend==1.28.0", "nvidia-cutlass-dsl-libs-base==4.5.1", "cuda-tile==1.7.0")
    present = "torch==2.11.0+cu130\ntriton==3.5.1\ncuda-toolkit==12.8\n"
    assert left_out(*stack, *wanted, present=present, tmp_path=tmp_path) == {
        "torch": "the node has 2.11.0+cu130",
        "triton": "GPU stack: the node keeps its 3.5.1",
        "nvidia-cublas": "comes with the node's torch",
        "cuda-toolkit": "GPU stack: the node keeps its 12.8",
    }


def test_without_torch_on_the_node_its_libraries_go_in(tmp_path: Path) -> None:
    assert left_out("torch==2.11.0", "nvidia-cublas==1", present="numpy==2.3.5\n", tmp_path=tmp_path) == {}


def test_a_package_is_left_out_by_any_spelling_of_its_name() -> None:
    chosen = select(pins("py-spy==0.4.3", "click==8.5.1"), {}, ["Py_Spy"])
    assert [str(pin) for pin in chosen.wanted] == ["click==8.5.1"]
    assert [(pin.name, why) for pin, why in chosen.left_out.items()] == [("py-spy", "asked for")]
    with pytest.raises(BundleError, match=r"without='pyspi'.*did you mean py-spy"):
        select(pins("py-spy==0.4.3"), {}, ["pyspi"])


def test_present_in_an_unknown_version_counts_for_the_gpu_stack_only() -> None:
    there = {name: Present(None) for name in ("torch", "click")}
    chosen = select(pins("torch==2.11.0", "click==8.5.1"), there, ())  # type: ignore[arg-type]
    assert [pin.name for pin in chosen.wanted] == ["click"]


def test_the_locks_are_read_for_the_nodes_python_and_platform() -> None:
    full = {pin.name: str(pin.version) for pin in read_lock(lock_path("full"), NODE)}
    older = {
        pin.name: str(pin.version) for pin in read_lock(lock_path("full"), Target("3.11", NODE.platform))
    }
    assert full["sglang"] == older["sglang"] == "0.5.12.post1"
    assert full["sglang-kernel"] == "0.4.2.post2"
    assert (full["scipy"], older["scipy"]) == ("1.18.1", "1.17.1")
    assert full["triton"] == "3.6.0"  # for Linux alone
    assert not {"colorama", "appnope", "av", "pywinpty"} & set(full)
    assert "overrides" in older
    assert "overrides" not in full
    assert "flashinfer-cubin" in full
    assert "flashinfer-cubin" not in {pin.name for pin in read_lock(lock_path("lean"), NODE)}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("click\n", "line 1: 'click' is no NAME==VERSION"),
        ("a==1\nclick>=8\n", "line 2: 'click>=8'"),
        ("-r other.txt\n", "-r other.txt"),
        ("a==1\na==2\n", "pins a twice, 1 and 2"),
        ("# nothing\n", "pins nothing"),
    ],
)
def test_a_lock_that_pins_nothing_exactly_is_refused(text: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "x.lock").write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=named):
        read_lock(tmp_path / "x.lock", NODE)


@pytest.mark.parametrize("text", ["", "# only this\n", "<html>\n"])
def test_a_present_file_that_lists_no_packages_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match="pip list --format=freeze"):
        read_present(tmp_path / "p.txt")


def test_the_newest_wheel_that_runs_on_the_node_is_taken(tmp_path: Path) -> None:
    for tag in (
        "cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp312-cp312-manylinux_2_31_x86_64",
        "cp312-cp312-manylinux_2_35_x86_64",
        "cp311-cp311-manylinux_2_31_x86_64",
        "cp312-cp312-manylinux_2_31_aarch64",
    ):
        make_wheel(tmp_path, "fast", "1.0", tag=tag)
    make_wheel(tmp_path, "torch", "2.11.0+cpu")
    make_wheel(tmp_path, "old", "1.0", tag="cp39-abi3-manylinux1_x86_64")
    found = pick(tmp_path, pins("fast==1.0", "torch==2.11.0", "old==1.0"), NODE)
    assert [path.name for path in found.values()] == [
        "fast-1.0-cp312-cp312-manylinux_2_31_x86_64.whl",
        "torch-2.11.0+cpu-py3-none-any.whl",
        "old-1.0-cp39-abi3-manylinux1_x86_64.whl",
    ]
    with pytest.raises(BundleError, match=r"gone==1.0; fast==2.0 \(fast-1.0-.*--without NAME"):
        pick(tmp_path, pins("gone==1.0", "fast==2.0"), NODE)
