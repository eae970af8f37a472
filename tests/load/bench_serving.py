"""The engine's own serving benchmark and our client on one server, the same prompts, one after the other.

What `sglang.bench_serving` means by its numbers (read in the pinned release, backend `sglang`):

- TTFT begins before the connection is opened (each request opens its own) and ends at the first event with a
  text that is not empty; ours begins before the request is sent on a connection that is kept, and ends at the
  first event with a token.
- Output throughput is all output tokens / a time that ends after a `GET /server_info`, which follows the last
  answer; ours ends with the last answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from statistics import fmean

from tokenizers import Tokenizer

from load.bench_program import END
from specswitch.load.client import GenerateClient, GenerateRequest
from specswitch.load.own_loop import run_in_own_loop
from specswitch.metrics.latency import ttft_ms
from specswitch.metrics.records import RequestRecord, StepRecord
from specswitch.metrics.throughput import whole_run_throughput
from specswitch.serving import control

PROGRAM = Path(__file__).with_name("bench_program.py")
TIMEOUT_S = 120.0
PAUSE_S = 1.0  # theirs, between warm-up and load


@dataclass(frozen=True, slots=True)
class Task:
    """`prompts` of equal length, each answered with `output_tokens`, at most `concurrency` in flight."""

    prompts: tuple[tuple[int, ...], ...]
    output_tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What one client says of one run. `tokens`: in all; times in seconds, `duration_s` as it defines it.

    `decode_s`: of the same run, by the engine; None where it was not asked.
    """

    tok_s: float
    ttft_ms: float
    tokens: int
    duration_s: float
    decode_s: float | None = None


def prepare(texts: Sequence[str], model: Path, prompt_tokens: int, output_tokens: int, concurrency: int):
    """A task from the first tokens of long enough texts, and the same texts as (ShareGPT) data for theirs."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    encoded = [(text, tokenizer.encode(text).ids) for text in texts]
    kept = [(text, tuple(ids[:prompt_tokens])) for text, ids in encoded if len(ids) > prompt_tokens]
    data = [{"conversations": [{"value": text}, {"value": "-"}]} for text, _ in kept]
    return Task(tuple(ids for _, ids in kept), output_tokens, concurrency), data


def ours(url: str, task: Task, *, warm_up: bool = True) -> Seen:
    """Run the task with our client: a warm-up request, an empty prefix cache, then all prompts."""
    if warm_up:
        control.generate(url, list(task.prompts[0]), 32)
    control.flush_cache(url)
    time.sleep(PAUSE_S)
    records = run_in_own_loop(lambda: _send(url, task))
    broken = [r.error for r in records if r.outcome != "ok"]
    assert not broken, broken[:3]
    tokens = sum(len(r.token_times_s) for r in records)
    rate = whole_run_throughput(records)
    assert rate is not None
    return Seen(rate, fmean(ttft_ms(records)), tokens, tokens / rate)


async def _send(url: str, task: Task) -> list[RequestRecord]:
    """`concurrency` slots take the prompts in order."""
    records: list[RequestRecord] = []
    numbers = count()

    async def slot(client: GenerateClient) -> None:
        while (i := next(numbers)) < len(task.prompts):
            request = GenerateRequest(i, task.prompts[i], task.output_tokens, time.monotonic())
            await client.generate(request, records.append)

    async with GenerateClient(url, TIMEOUT_S) as client:
        await asyncio.gather(*(slot(client) for _ in range(task.concurrency)))
    return records


class Theirs:
    """`python -m sglang.bench_serving`, offline, imported once. A context manager; one run at a time."""

    def __init__(self, model: Path, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self._runs = 0

    def __enter__(self) -> Theirs:
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "SPECSWITCH_CPU": "1", "no_proxy": "*"}
        self._process = subprocess.Popen(
            [sys.executable, "-u", PROGRAM],
            cwd=self._folder,
            env={**os.environ, **offline},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, url: str, task: Task, data: object) -> Seen:
        """Run the task once. Raises RuntimeError, with its output, when it fails."""
        self._runs += 1
        dataset, result = self._folder / "prompts.json", self._folder / f"result-{self._runs}.jsonl"
        dataset.write_text(json.dumps(data), encoding="utf-8")
        words = {
            "backend": "sglang",
            "base-url": url,
            "model": self._model,
            "dataset-name": "random",
            "dataset-path": dataset,
            "num-prompts": len(task.prompts),
            "random-input-len": len(task.prompts[0]),
            "random-output-len": task.output_tokens,
            "random-range-ratio": 1.0,
            "max-concurrency": task.concurrency,
            "seed": self._runs,
            "output-file": result,
        }
        command = ["--tokenize-prompt", "--flush-cache", "--disable-tqdm"]
        for name, value in words.items():
            command += [f"--{name}", str(value)]
        said = self._call(command)
        if not result.exists():
            raise RuntimeError(f"bench_serving wrote no result: {said[-3000:]}")
        found = json.loads(result.read_text(encoding="utf-8").splitlines()[-1])
        assert found["completed"] == len(task.prompts)
        assert found["total_input_tokens"] == sum(map(len, task.prompts))
        return Seen(
            found["output_throughput"], found["mean_ttft_ms"], found["total_output_tokens"], found["duration"]
        )

    def _call(self, command: list[str]) -> str:
        """Run one command line; returns all that it printed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command) + "\n")
        stdin.flush()
        said = []
        for line in stdout:
            if line.startswith(END):
                return "".join(said)
            said.append(line)
        raise RuntimeError(f"bench_serving died: {''.join(said)[-3000:]}")


def decode_s(steps: Sequence[StepRecord]) -> float:
    """Seconds from the first to the last decode step of a load, by the engine's own log of one run.

    The run begins with a warm-up request, which the pause divides from the load. Who measures the load cannot
    change this time but by being slow to send; it is what a client's duration can be held against, however
    fast the machine happens to be during the run.
    """
    gaps = [i for i, (a, b) in enumerate(pairwise(steps), start=1) if b.t_s - a.t_s > 0.9 * PAUSE_S]
    load = steps[gaps[-1] if gaps else 0 :]
    return load[-1].t_s - load[0].t_s
