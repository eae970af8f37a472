"""Our client and `python -m sglang.bench_serving` agree on one server, in five paired runs each.

What is left between them has a cause (`load.bench_serving` has the definitions): theirs opens a connection for
every request, about a millisecond that is in its TTFT and in its duration, and it asks for /server_info before
it stops the clock. On a server whose pace is fixed by a script this can be seen to the millisecond. The real
engine on the same few cores varies by 10 % from run to run, whoever measures; there each duration is held
against the engine's own, of the same run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import specswitch
from fakes.fake_server import server_process
from load.bench_serving import Seen, Task, Theirs, decode_s, ours, prepare
from specswitch.config import ServerConfig
from specswitch.metrics.intervals import Interval, mean_interval, paired_ratio
from specswitch.results.steps_file import read_steps, step_log
from specswitch.serving.launch import launch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DATA = Path(specswitch.__file__).parent / "models" / "data"
TARGET = DATA / "tiny-target"
PAIRS = 5
PROMPT_TOKENS, OUTPUT_TOKENS = 48, 64
LOG_S = 0.5  # after which the last step is in the engine's log
# Theirs opens a connection per request: 1.2 ms seen of 100. So many milliseconds more or less are the machine's.
CONNECT_MS = 2.0


def task_of(prompts: int, concurrency: int) -> tuple[Task, list[object]]:
    lines = (DATA / "heldout.jsonl").read_text(encoding="utf-8").split("\n")
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    task, data = prepare(texts, TARGET, PROMPT_TOKENS, OUTPUT_TOKENS, concurrency)
    return Task(task.prompts[:prompts], OUTPUT_TOKENS, concurrency), data[:prompts]


def paired_runs(
    url: str, task: Task, data: list[object], folder: Path, steps_dir: Path | None = None
) -> tuple[list[Seen], list[Seen]]:
    """Runs of ours and of theirs, taking turns in who goes first; with `steps_dir`, the engine's time, too."""
    mine: list[Seen] = []
    other: list[Seen] = []

    def run(seen: list[Seen], measure: Callable[[], Seen]) -> None:
        begun_s = time.monotonic()
        found = measure()
        if steps_dir is not None:
            time.sleep(LOG_S)
            found = replace(found, decode_s=decode_s(read_steps(step_log(steps_dir), begun_s)))
        seen.append(found)

    with Theirs(TARGET, folder) as bench:
        turns = [
            lambda: run(mine, lambda: ours(url, task)),
            lambda: run(other, lambda: bench.run(url, task, data)),
        ]
        for i in range(PAIRS):
            for turn in turns if i % 2 else turns[::-1]:
                turn()
    return mine, other


def ratio(what: str, mine: list[float], other: list[float]) -> Interval:
    found = paired_ratio(mine, other)
    assert found is not None
    print(f"{what}: ours / theirs {found.mean:.4f} [{found.low:.4f}, {found.high:.4f}]")  # noqa: T201
    return found


def speeds(runs: list[Seen]) -> list[float]:
    return [s.tok_s for s in runs]


def first_tokens(runs: list[Seen]) -> list[float]:
    return [s.ttft_ms for s in runs]


def shares_decoding(runs: list[Seen]) -> list[float]:
    """The engine's time for its decode steps / the client's for the whole run."""
    return [s.decode_s / s.duration_s for s in runs if s.decode_s is not None]


@pytest.mark.parametrize("tokens_per_chunk", [1, 3])
def test_on_a_server_of_fixed_pace_they_differ_by_the_connection_only(
    tmp_path: Path, tokens_per_chunk: int
) -> None:
    task, data = task_of(prompts=16, concurrency=4)
    pace = ["--ttft-ms", "100", "--itl-ms", "10", "--tokens-per-chunk", str(tokens_per_chunk)]
    with server_process(*pace) as url:
        mine, other = paired_runs(url, task, data, tmp_path)
    assert {s.tokens for s in (*mine, *other)} == {16 * OUTPUT_TOKENS}
    # On a quiet machine theirs is 0.46 % slower: four connections one after the other, and /server_info, in three
    # seconds. Whoever else runs here can only make a run slower, so the best ones tell more than the mean.
    assert ratio("tokens/s", speeds(mine), speeds(other)).mean == pytest.approx(1.0, abs=0.03)
    assert max(speeds(mine)) / max(speeds(other)) == pytest.approx(1.0, abs=0.01)
    more = mean_interval([a - b for a, b in zip(first_tokens(other), first_tokens(mine), strict=True)])
    assert more is not None
    print(f"TTFT: theirs - ours {more.mean:.2f} ms [{more.low:.2f}, {more.high:.2f}]")  # noqa: T201
    assert min(first_tokens(other)) - min(first_tokens(mine)) == pytest.approx(1.2, abs=CONNECT_MS)


@pytest.mark.engine
def test_on_the_engine_no_difference_beyond_one_percent_is_seen(tmp_path: Path) -> None:
    task, data = task_of(prompts=32, concurrency=4)
    config = ServerConfig(
        model=str(TARGET), max_running_requests=8, env={"OMP_NUM_THREADS": "1"}, ready_timeout_s=600.0
    )
    steps_dir = tmp_path / "steps"
    steps_dir.mkdir()
    with launch(config, tmp_path / "server.log", steps_dir=steps_dir) as server:
        ours(server.url, task)
        mine, other = paired_runs(server.url, task, data, tmp_path, steps_dir)
    assert {s.tokens for s in (*mine, *other)} == {32 * OUTPUT_TOKENS}
    # The same engine time lies in both, so how fast the machine is just now falls out of this ratio. Seen on a busy
    # machine: 1.007 [0.993, 1.022], where the speeds alone gave 1.013 [0.819, 1.252].
    held = ratio("tokens/s by the engine's time", shares_decoding(mine), shares_decoding(other))
    assert abs(held.mean - 1) < 0.01 or held.low < 1 < held.high
    assert held.high / held.low < 1.1, (
        "an interval as wide as this one shows nothing: measure on a quieter machine"
    )
    # Left alone, the machine hides differences of this size: no claim but that none is seen.
    speed = ratio("tokens/s", speeds(mine), speeds(other))
    first = ratio("TTFT", first_tokens(mine), first_tokens(other))
    assert speed.low < 1.01
    assert speed.high > 0.99
    assert first.low < 1.01
