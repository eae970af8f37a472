"""A plainly started server on the CPU platform: it answers, it rests when idle, it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from engine.harness import Engine, in_process
from specswitch.serving.port import free_port

pytestmark = pytest.mark.engine

PROMPT = list(range(30, 50))
TOKENS = 40


@contextmanager
def server(pair: tuple[Path, Path], log: Path, ranks: int = 1) -> Iterator[tuple[str, psutil.Process]]:
    port = free_port()  # not any that the kernel gives: the engine adds 10,000 for a second one
    options = {
        "model-path": pair[0],
        "speculative-draft-model-path": pair[1],
        "speculative-algorithm": "EAGLE3",
        "speculative-num-steps": 3,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 4,
        "device": "cpu",
        "attention-backend": "torch_native",
        "sampling-backend": "pytorch",
        "max-running-requests": 8,
        "max-total-tokens": 2048,
        "port": port,
        "tp-size": ranks,
    }
    argv = [sys.executable, "-m", "sglang.launch_server", "--sleep-on-idle"]
    for name, value in options.items():
        argv += [f"--{name}", str(value)]
    env = os.environ | {
        "SPECSWITCH_CPU": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    if ranks > 1:  # the engine asks for the cores of each rank where there are fewer memory nodes than ranks
        env["SGLANG_CPU_OMP_THREADS_BIND"] = "|".join(str(r % (os.cpu_count() or 1)) for r in range(ranks))
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=env, stdout=file, stderr=subprocess.STDOUT)
    family = psutil.Process(process.pid)
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}", family
    finally:
        children = family.children(recursive=True) if family.is_running() else []
        process.kill()
        for child in children:
            child.kill()
        process.wait()


def wait_until_healthy(url: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-4000:]
        try:
            with urllib.request.urlopen(f"{url}/health_generate", timeout=20) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise TimeoutError(log.read_text(encoding="utf-8", errors="replace")[-4000:])


def generate(url: str, temperature: float = 0) -> dict:
    body = {
        "input_ids": PROMPT,
        "sampling_params": {"temperature": temperature, "max_new_tokens": TOKENS, "ignore_eos": True},
    }
    request = urllib.request.Request(
        f"{url}/generate", json.dumps(body).encode("utf-8"), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def cpu_seconds(family: psutil.Process) -> float:
    times = [p.cpu_times() for p in (family, *family.children(recursive=True))]
    return sum(t.user + t.system for t in times)


def alone(pair: tuple[Path, Path]) -> list[int]:
    engine = Engine("none", *pair)
    return engine.generate([PROMPT], {"max_new_tokens": TOKENS, "ignore_eos": True})[0].output_ids


def test_a_plainly_started_server_speculates_and_rests_when_idle(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    with server(pair, tmp_path / "server.log") as (url, family):
        answer = generate(url)
        assert answer["output_ids"] == in_process(alone, pair)
        assert answer["meta_info"]["spec_verify_ct"] > 0
        assert len(family.children(recursive=True)) >= 2

        time.sleep(2)
        before = cpu_seconds(family)
        time.sleep(5)
        assert cpu_seconds(family) - before < 1.0


@pytest.mark.slow
def test_two_tensor_parallel_ranks_give_the_same_text(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with server(pair, tmp_path / "server.log", ranks=2) as (url, _):
        answer = generate(url)
        assert answer["output_ids"] == in_process(alone, pair)
        assert answer["meta_info"]["spec_verify_ct"] > 0
        assert len(generate(url, temperature=1.0)["output_ids"]) == TOKENS
