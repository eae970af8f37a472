"""Our client and `python -m sglang.bench_serving` agree on one server, in five paired runs each.

What is left between them has a cause (`load.bench_serving` has the definitions): theirs opens a connection for
every request, about a millisecond that is in its TTFT and in its duration, and it asks for /server_info before
it stops the clock. On a server whose pace is fixed by a script this can be seen to the millisecond. The real
engine on the same two cores varies more than that from run to run, so there the interval has to hold 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import specswitch
from fakes.fake_server import server_process
from load.bench_serving import Seen, Task, Theirs, ours, prepare
from specswitch.config import ServerConfig
from specswitch.metrics.intervals import Interval, paired_difference, paired_ratio
from specswitch.serving.launch import launch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DATA = Path(specswitch.__file__).parent / "models" / "data"
TARGET = DATA / "tiny-target"
PAIRS = 5
PROMPT_TOKENS, OUTPUT_TOKENS = 48, 64
# Theirs opens a connection per request: 1.2 ms seen of 100. So many milliseconds more or less are the machine's.
CONNECT_MS = 2.0


def task_of(prompts: int, concurrency: int) -> tuple[Task, list[object]]:
    lines = (DATA / "heldout.jsonl").read_text(encoding="utf-8").split("\n")
    texts = [json.loads(line)["text"] for line in lines if line.strip()]
    task, data = prepare(texts, TARGET, PROMPT_TOKENS, OUTPUT_TOKENS, concurrency)
    return Task(task.prompts[:prompts], OUTPUT_TOKENS, concurrency), data[:prompts]


def paired_runs(
    url: str, task: Task, data: list[object], folder: Path, pairs: int = PAIRS
) -> tuple[list[Seen], list[Seen]]:
    """Runs of both, taking turns in who goes first."""
    mine: list[Seen] = []
    other: list[Seen] = []
    with Theirs(TARGET, folder) as bench:
        turns: list[Callable[[], None]] = [
            lambda: mine.append(ours(url, task)),
            lambda: other.append(bench.run(url, task, data)),
        ]
        for i in range(pairs):
            for turn in turns if i % 2 else turns[::-1]:
                turn()
    return mine, other


def ratio(mine: list[Seen], other: list[Seen], name: str) -> Interval:
    found = paired_ratio([getattr(s, name) for s in mine], [getattr(s, name) for s in other])
    assert found is not None
    print(f"{name}: ours / theirs {found.mean:.4f} [{found.low:.4f}, {found.high:.4f}]")  # noqa: T201
    return found


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
    assert ratio(mine, other, "tok_s").mean == pytest.approx(1.0, abs=0.03)
    best_mine, best_other = (max(s.tok_s for s in runs) for runs in (mine, other))
    assert best_mine / best_other == pytest.approx(1.0, abs=0.01)
    more = paired_difference([s.ttft_ms for s in other], [s.ttft_ms for s in mine])
    assert more is not None
    print(f"TTFT: theirs - ours {more.mean:.2f} ms [{more.low:.2f}, {more.high:.2f}]")  # noqa: T201
    least_mine, least_other = (min(s.ttft_ms for s in runs) for runs in (mine, other))
    assert least_other - least_mine == pytest.approx(1.2, abs=CONNECT_MS)


@pytest.mark.engine
def test_on_the_engine_they_cannot_be_told_apart(tmp_path: Path) -> None:
    task, data = task_of(prompts=32, concurrency=4)
    config = ServerConfig(
        model=str(TARGET), max_running_requests=8, env={"OMP_NUM_THREADS": "1"}, ready_timeout_s=600.0
    )
    with launch(config, tmp_path / "server.log") as server:
        ours(server.url, task)
        mine, other = paired_runs(server.url, task, data, tmp_path)
    assert {s.tokens for s in (*mine, *other)} == {32 * OUTPUT_TOKENS}
    speed, first = ratio(mine, other, "tok_s"), ratio(mine, other, "ttft_ms")
    assert speed.low < 1.01
    assert speed.high > 0.99
    assert first.low < 1.01
    assert first.high > 0.9
