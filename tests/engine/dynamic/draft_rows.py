"""The rows that the draft model's KV cache holds for a request, compared by position between two servers.

EAGLE-3 has one draft layer, so the row of position i depends on the tokens up to i + 1 and on nothing else: two
servers that emit the same tokens must hold the same rows, whatever they did in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from engine.harness import Engine

TOLERANCE = 1e-4

Rows = dict[
    str, np.ndarray
]  # request id -> [positions, values]; arrays, since tensors do not outlive a process


def draft_runner(engine: Engine) -> Any:
    """The draft model's runner of either speculating worker."""
    worker = engine.worker
    return worker.draft_worker.draft_runner if engine.path == "v2" else worker.draft_model_runner


def rows(engine: Engine, rid: str) -> np.ndarray:
    """K and V of a live request's positions that should be complete, [positions, values].

    Complete are all positions but that of the newest token, and of those only the synced ones.
    """
    from specswitch.engine.draft_sync import rows_of

    req = engine.requests[rid]
    complete = len(req.origin_input_ids) + len(req.output_ids) - 1
    synced = rows_of(req)
    length = complete if synced is None else min(complete, synced)
    slots = engine.scheduler.req_to_token_pool.req_to_token[req.req_pool_idx, :length].long()
    pool = draft_runner(engine).token_to_kv_pool
    return torch.cat([cache[slots].flatten(1) for cache in (*pool.k_buffer, *pool.v_buffer)], dim=1).numpy()


class Watch:
    """Keeps the newest rows of every running request while an engine is stepped."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.last: Rows = {}
        step = engine.step

        def stepped(count: int = 1) -> None:
            for _ in range(count):
                step()
                self._look()

        engine.step = stepped  # type: ignore[method-assign]

    def _look(self) -> None:
        for req in self.engine.scheduler.running_batch.reqs:
            if not req.finished() and not req.is_retracted and req.rid in self.engine.requests:
                self.last[req.rid] = rows(self.engine, req.rid)


def differing(got: Rows, reference: Rows) -> tuple[int, int]:
    """Positions compared over all requests in both, and how many of them differ by more than the tolerance."""
    compared = wrong = 0
    for rid in got.keys() & reference.keys():
        n = min(len(got[rid]), len(reference[rid]))
        worst = np.abs(got[rid][:n] - reference[rid][:n]).max(axis=1)
        compared += n
        wrong += int((worst > TOLERANCE).sum())
    return compared, wrong


def watched(engine: Engine, load: Callable[[Engine], None]) -> Rows:
    """Serve a load; the last complete rows of each request."""
    watch = Watch(engine)
    load(engine)
    return watch.last
