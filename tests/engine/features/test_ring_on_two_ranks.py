"""Two tensor-parallel ranks that have different amounts of memory free: one size of ring, one sync rule.

The ring's window decides in which steps the draft model runs. Ranks with different ones would wait for each other in
its collectives.
"""

from __future__ import annotations

import os

import pytest

from engine.children import in_processes
from engine.dynamic import faults, runs
from engine.features.arms import Pair
from engine.harness import Engine
from specswitch.serving.port import free_port

EACH_FOR_ITSELF = (("buffer_budget", "if ranks.world_size == 1:", "if True:"),)
Edits = tuple[tuple[str, str, str], ...]


def ring(path: str, pair: Pair, port: int, rank: int, free: int, edits: Edits) -> tuple[str, int]:
    """Sync rule and window of a rank that finds so many bytes free."""
    faults.inject(edits)
    from specswitch.engine import workers

    workers.free_bytes = lambda device: free
    options = runs.options(4, speculative_lazy_window=128) | {"tp_size": 2, "nccl_port": port}
    sync = Engine(path, *pair, tp_rank=rank, **options).worker.sync
    return sync.rule, sync.window


def rings(path: str, pair: Pair, free: tuple[int, int], edits: Edits = ()) -> list[tuple[str, int]]:
    port = free_port()
    arguments = [(path, pair, port, rank, free[rank], edits) for rank in (0, 1)]
    return in_processes(ring, arguments, env={"SGLANG_CPU_OMP_THREADS_BIND": "0|1"})


pytestmark = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="each rank is bound to a core of its own")


@pytest.mark.parametrize(
    ("path", "free", "same"),
    [
        ("v1", (10**9, 16 * 10**6), ("lazy", 64)),
        ("v2", (10**6, 10**9), ("eager", 1)),
    ],
)
def test_the_rank_with_the_least_memory_decides_for_both(
    pair: Pair, path: str, free: tuple[int, int], same: tuple[str, int]
) -> None:
    assert rings(path, pair, free) == [same, same]


def test_ranks_that_look_at_their_own_memory_alone_would_differ(pair: Pair) -> None:
    assert rings("v2", pair, (10**9, 16 * 10**6), EACH_FOR_ITSELF) == [("lazy", 128), ("lazy", 64)]
