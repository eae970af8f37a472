"""Scenarios in child processes that start with the engine already imported.

The engine keeps global state, so a process can hold one of it; importing it takes seven seconds. A fork server
imports it once per test session, and every scenario runs in a fork of that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specswitch.engine.cpu import bootstrap

# The engine reads these while it is imported: environment variable -> the module constants it ends up in.
READ_AT_IMPORT = {
    "SGLANG_TEST_RETRACT": ["sglang.srt.managers.scheduler.TEST_RETRACT"],
    "SGLANG_TEST_RETRACT_INTERVAL": ["sglang.srt.managers.scheduler.TEST_RETRACT_INTERVAL"],
    "SGLANG_TEST_RETRACT_NO_PREFILL_BS": ["sglang.srt.managers.scheduler.TEST_RETRACT_NO_PREFILL_BS"],
    "SGLANG_SIMULATE_ACC_LEN": [
        f"sglang.srt.speculative.{module}.SIMULATE_ACC_LEN"
        for module in ("spec_utils", "eagle_info", "eagle_info_v2")
    ],
}

# What a scenario process imports before it is forked: about seven seconds, paid once per test session.
PRELOAD = [
    "sglang.srt.managers.scheduler",
    "sglang.srt.managers.tokenizer_manager",
    "sglang.srt.models.registry",
    "sglang.srt.speculative.eagle_worker",
    "sglang.srt.speculative.eagle_worker_v2",
    "sglang.srt.models.llama",
    "sglang.srt.models.llama_eagle3",
    "sglang.srt.constrained.xgrammar_backend",
    "specswitch.engine.cpu.patches",
]


def in_process(
    scenario: Callable[..., Any],
    *args: Any,
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> Any:
    """Run scenario(*args) in a child process and return its (picklable) result.

    scenario: a function at module level. env is set in the child before it runs, also for the engine's variables in
    `READ_AT_IMPORT`. The child is forked from a process that has SGLang imported already and computes with one
    thread. This process's own environment stays as it is. Raises AssertionError or RuntimeError with the child's
    traceback, and the end of its log if it died or timed out.
    """
    [result] = in_processes(scenario, [args], env=env, timeout=timeout)
    return result


def in_processes(
    scenario: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> list[Any]:
    """`in_process` for each tuple of arguments, all at the same time; their results in order."""
    children = [_start(scenario, args, env or {}) for args in arguments]
    try:
        return [_result(child, timeout) for child in children]
    finally:
        for child in children:
            child.process.kill()
            child.process.join()
            os.unlink(child.log)


@dataclass(frozen=True)
class _Started:
    process: Any
    receiver: Any
    log: str


def _start(scenario: Callable[..., Any], args: tuple[Any, ...], env: dict[str, str]) -> _Started:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    receiver, sender = context.Pipe(duplex=False)
    with tempfile.NamedTemporaryFile(prefix="scenario-", suffix=".log", delete=False) as log:
        pass
    process = context.Process(target=_child, args=(sender, log.name, env, scenario, args), daemon=True)
    with _environment(process_environment()):
        process.start()
    sender.close()
    return _Started(process, receiver, log.name)


def _result(child: _Started, timeout: float) -> Any:
    try:
        if not child.receiver.poll(timeout):
            raise RuntimeError(f"no result after {timeout} s\n{_tail(child.log)}")
        kind, value = child.receiver.recv()
    except EOFError:
        raise RuntimeError(f"the scenario's process died\n{_tail(child.log)}") from None
    if kind == "result":
        return value
    raise (AssertionError if kind == "assertion" else RuntimeError)(value)


def _child(
    sender: Any, log: str, env: dict[str, str], scenario: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        _apply(env)
        sender.send(("result", scenario(*args)))
    except BaseException as error:
        kind = "assertion" if isinstance(error, AssertionError) else "error"
        sender.send((kind, "in the scenario's process:\n" + traceback.format_exc() + _tail(log, 20)))
    sender.close()
    sys.stdout.flush()
    os._exit(0)  # without waiting for the scheduler's threads


def _apply(env: dict[str, str]) -> None:
    """Set environment variables, and the constants the engine has already read some of them into."""
    import torch
    from sglang.srt.environ import envs

    torch.set_num_threads(1)
    os.environ |= env
    for name in READ_AT_IMPORT.keys() & env.keys():
        for path in READ_AT_IMPORT[name]:
            module, constant = path.rsplit(".", 1)
            setattr(sys.modules[module], constant, getattr(envs, name).get())


def process_environment() -> dict[str, str]:
    """What has to be set when a process begins to import the engine.

    In a server the main process sets it while it imports the engine, and the scheduler's process starts with it;
    here the two are one process.
    """
    return {"SPECSWITCH_CPU": "1", "CUDA_VISIBLE_DEVICES": "", **bootstrap.EARLY_ENVIRONMENT}


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for a while; processes started meanwhile keep them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _tail(log: str, lines: int = 60) -> str:
    text = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(["--- end of the log ---", *text[-lines:]])
