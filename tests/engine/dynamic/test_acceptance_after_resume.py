"""Trained pair: after 96 tokens made while off, drafts are accepted as if speculation had never paused.

Compared by generation position: tokens per verify step over the steps that start at or behind the same output
position, in the same requests, whose texts are equal. `stale` is the control: without the catch-up it is visibly
worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from engine.dynamic import runs
from engine.harness import Engine
from specswitch.models import pair as trained

pytestmark = pytest.mark.engine

OFF, ON, SHORTLY = 96, 48, 24  # output tokens off, then on; the first of the latter looked at separately
PROMPT = 48


@dataclass
class Verify:
    """One request in one verify step: output tokens it had before, and how many it got."""

    before: int
    emitted: int


def verifies(
    path: str, prompts: list[str], opts: dict[str, Any]
) -> tuple[list[Verify], list[list[int]], str]:
    """Every verify step behind the off phase (without a threshold: behind the same position) and the outputs."""
    target, draft = trained.target_dir(), trained.draft_dir()
    engine = Engine(path, target, draft, max_total_tokens=16384, **opts)
    for i, text in enumerate(prompts):
        ids = engine.scheduler.tokenizer.encode(text)[:PROMPT]
        engine.submit(ids, {"max_new_tokens": OFF + ON, "ignore_eos": True}, rid=f"p{i:02d}")
    found: list[Verify] = []
    seen: dict[str, tuple[int, int]] = {}
    while len(engine._results) < len(prompts):
        engine.step()
        for rid, req in engine.requests.items():
            before, verified = seen.get(rid, (0, 0))
            seen[rid] = now = (len(req.output_ids), req.spec_verify_ct)
            if now[1] == verified + 1 and before >= OFF and now[0] <= OFF + ON:
                found.append(Verify(before, now[0] - before))
        if opts and engine.worker.switch.rule.threshold == 0:
            if min((n for n, _ in seen.values()), default=0) >= OFF and len(seen) == len(prompts):
                from specswitch.engine import control

                control.change_rule(engine.worker, {"threshold": None})
    results = engine.run()
    outputs = [results[f"p{i:02d}"].output_ids for i in range(len(prompts))]
    return found, outputs, type(engine.worker).__name__


def accept_length(steps: list[Verify], upto: int = ON) -> float:
    counted = [s.emitted for s in steps if s.before < OFF + upto]
    assert len(counted) >= 100
    return sum(counted) / len(counted)


@pytest.mark.parametrize(
    ("path", "requests", "syncs"),
    [
        pytest.param("v2", 16, ["lazy", "stale"], id="v2-16-requests"),
        pytest.param("v1", 48, ["lazy", "eager", "stale"], id="v1-48-requests", marks=pytest.mark.slow),
        pytest.param("v2", 48, ["lazy", "eager", "stale"], id="v2-48-requests", marks=pytest.mark.slow),
    ],
)
def test_accept_length_after_resume(
    path: str, requests: int, syncs: list[str], record_property: Callable[[str, object], None]
) -> None:
    prompts = trained.held_out_prompts()[:: 320 // requests][:requests]
    always, text, worker = runs.in_child(verifies, path, prompts, {})
    assert worker in ("EAGLEWorker", "EAGLEWorkerV2")
    assert len({tuple(ids) for ids in text}) == requests
    reference, shortly = accept_length(always), accept_length(always, SHORTLY)
    record_property("always", (reference, shortly))
    for sync in syncs:
        steps, outputs, _ = runs.in_child(verifies, path, prompts, runs.options(0, sync))
        assert outputs == text
        got = accept_length(steps), accept_length(steps, SHORTLY)
        record_property(sync, got)
        if sync == "stale":
            assert got[0] <= 0.9 * reference
            assert got[1] <= 0.85 * shortly
        else:
            assert got[0] >= 0.95 * reference
            assert got[1] >= 0.95 * shortly
