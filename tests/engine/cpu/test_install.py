"""Inert unless asked for, complete when asked for, loud when incomplete."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from engine.harness import in_process


def run(code: str, **env: str) -> str:
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("SPECSWITCH", "SGLANG", "TRITON", "TORCHDYNAMO"))
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean | env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_the_variable_nothing_is_imported_or_changed() -> None:
    code = """
import os, sys
before = dict(os.environ)
from specswitch.engine import cpu
from specswitch.engine.cpu import bootstrap
print(bootstrap.activate(), cpu.install(), cpu.installed())
heavy = [m for m in sys.modules if m.split(".")[0] in ("torch", "sglang", "sgl_kernel", "triton")]
assert not heavy, heavy
assert dict(os.environ) == before
"""
    assert run(code) == "None None False"
    assert run(code, SPECSWITCH_CPU="0") == "None None False"


@pytest.mark.engine
def test_without_the_variable_the_engine_stays_as_it_is() -> None:
    code = """
import torch
synchronize = torch.cuda.synchronize
from sglang.srt.platforms import current_platform
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, create_torch_native_backend
import sys
assert ATTENTION_BACKENDS["torch_native"] is create_torch_native_backend
assert torch.cuda.synchronize is synchronize
assert "specswitch.engine.cpu.patches" not in sys.modules
print(type(current_platform).__name__)
"""
    assert run(code) == "SRTPlatform"


@pytest.mark.engine
def test_the_entry_point_prepares_the_process_while_the_engine_is_imported() -> None:
    code = """
import os
import sglang.srt.mem_cache.memory_pool
from specswitch.engine.cpu import bootstrap
assert bootstrap.active()
from sglang.srt.platforms import current_platform
print(type(current_platform).__name__, *(os.environ[n] for n in bootstrap.EARLY_ENVIRONMENT))
"""
    assert run(code, SPECSWITCH_CPU="1", CUDA_VISIBLE_DEVICES="") == "SRTPlatform 1 1 1"


@pytest.mark.engine
def test_without_the_early_entry_the_late_one_refuses() -> None:
    code = """
from specswitch.engine import cpu
try:
    cpu.install()
except RuntimeError as error:
    print(error)
"""
    out = run(code, SPECSWITCH_CPU="1", SGLANG_PLUGINS="another", CUDA_VISIBLE_DEVICES="")
    assert "activate did not run" in out
    assert "SGLANG_PLUGINS" in out


def tampered(target: str, attribute: str) -> tuple[bool, bool, list[str]]:
    import importlib

    from specswitch.engine import cpu
    from specswitch.engine.cpu import bootstrap, patches

    bootstrap.activate()
    cpu.install()
    before = cpu.installed()
    holder: Any = importlib.import_module(target)
    *classes, name = attribute.split(".")
    for part in classes:
        holder = getattr(holder, part)
    setattr(holder, name, None)
    return before, cpu.installed(), patches.missing()


@pytest.mark.engine
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("sglang.srt.speculative.eagle_info", "verify_tree_greedy_func"),
        ("sglang.srt.speculative.eagle_info_v2", "top_k_renorm_prob"),
        ("sglang.srt.speculative.draft_utils", "DraftBackendFactory.create_decode_backend"),
        ("sglang.srt.speculative.spec_utils", "assign_draft_cache_locs"),
    ],
)
def test_a_name_that_is_no_longer_ours_is_noticed(module: str, name: str) -> None:
    before, after, missing = in_process(tampered, module, name)
    assert (before, after) == (True, False)
    assert missing == [f"{module}.{name}"]


def twice() -> bool:
    from specswitch.engine import cpu
    from specswitch.engine.cpu import bootstrap

    bootstrap.activate()
    cpu.install()
    cpu.install()
    return cpu.installed()


@pytest.mark.engine
def test_installing_twice_is_as_good_as_once() -> None:
    assert in_process(twice)


def with_cuda() -> str:
    import torch

    from specswitch.engine import cpu

    torch.cuda.is_available = lambda: True
    try:
        cpu.install()
    except RuntimeError as error:
        return str(error)
    return ""


@pytest.mark.engine
def test_a_machine_with_visible_cuda_is_refused() -> None:
    assert "CUDA_VISIBLE_DEVICES=''" in in_process(with_cuda)
