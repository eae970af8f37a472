"""A server that was asked to run under Specswitch does so or ends with an explanation; it never serves stock."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.children import in_process
from engine.features.arms import Pair
from engine.harness import _argv, _default_options


def wrong_version() -> None:
    from specswitch.engine import seam

    seam.TESTED_VERSION = "0.0.1"


def broken_hook() -> None:
    from specswitch.engine import scheduler_hooks

    del scheduler_hooks.process_decode


def hook_that_does_not_apply() -> None:
    """The engine's registry logs the failure of one hook and goes on."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    apply = HookRegistry._apply_target

    def failing(target: str, hooks: list) -> None:
        if target.endswith("process_batch_result_decode"):
            raise TypeError("cannot be wrapped")
        apply(target, hooks)

    HookRegistry._apply_target = failing


def engine_without_a_name() -> None:
    from sglang.srt.managers.scheduler import Scheduler

    del Scheduler.get_internal_state


def forgotten_hook() -> None:
    from specswitch.engine import seam

    seam.HOOKED["another"] = seam.HOOKED["on_idle"]


def register_with(fault: Callable[[], None], asked: bool) -> str:
    """Load the plugins as a server process does; what came of it."""
    from sglang.srt.plugins import load_plugins

    for name in [n for n in os.environ if n.startswith("SPECSWITCH_")]:
        del os.environ[name]
    if asked:
        os.environ["SPECSWITCH_CPU"] = "1"
    fault()
    try:
        load_plugins()
    except SystemExit as e:
        return f"exit: {e.code}"
    return "serves"


FAULTS = [
    (wrong_version, "0.0.1 is needed"),
    (broken_hook, "process_decode"),
    (hook_that_does_not_apply, "hooks did not apply: sglang.srt.managers.scheduler.Scheduler.process_batch"),
    (engine_without_a_name, "get_internal_state does not exist"),
    (forgotten_hook, "hooks and seam differ: ['another']"),
]


@pytest.mark.parametrize(("fault", "reason"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_faulty_installation_ends_the_process_with_the_reason(
    fault: Callable[[], None], reason: str
) -> None:
    said = in_process(functools.partial(register_with, fault, asked=True))
    assert said.startswith("exit: Specswitch could not be installed into SGLang: ")
    assert reason in said


def test_a_process_that_did_not_ask_for_us_is_left_alone() -> None:
    assert in_process(functools.partial(register_with, wrong_version, asked=False)) == "serves"


SITECUSTOMIZE = """
import sys
if {only_in_children!r} and "--multiprocessing-fork" not in sys.orig_argv:
    pass
else:
    import specswitch.engine.seam as seam
    seam.TESTED_VERSION = "0.0.1"
"""


@pytest.mark.slow
@pytest.mark.parametrize("only_in_children", [False, True])
def test_a_real_server_with_the_fault_ends_before_it_listens(
    pair: Pair, tmp_path: Path, only_in_children: bool
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        SITECUSTOMIZE.format(only_in_children=only_in_children), encoding="utf-8"
    )
    options = _default_options("v2", *pair) | {"speculative_disable_batch_threshold": 4, "port": 31999}
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "SPECSWITCH_CPU": "1",
        "SPECSWITCH_NONCE": "test",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "sglang.launch_server", *_argv(options)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode != 0
    assert "Specswitch could not be installed into SGLang" in done.stderr
    assert "0.0.1 is needed" in done.stderr
    assert "Uvicorn running" not in done.stdout + done.stderr
