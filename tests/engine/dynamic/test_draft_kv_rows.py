"""Which prefills can spare the draft: one attention layer, a plain KV pool, token ids and nothing else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.dynamic import loads, runs
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine


def reasons(pair: Pair) -> dict[str, str | None]:
    """`why_not` of a real draft runner, and of it with one thing changed at a time."""
    import torch
    from sglang.srt.layers.radix_attention import RadixAttention

    from specswitch.engine.draft_kv_rows import why_not

    engine = Engine("v2", *pair, **runs.options(0, "lazy"))
    runner, args = engine.worker.draft_worker.draft_runner, engine.scheduler.server_args
    found = {"as it is": why_not(runner, args)}
    pool, runner.token_to_kv_pool = runner.token_to_kv_pool, object()
    found["another pool"] = why_not(runner, args)
    runner.token_to_kv_pool = pool
    args.enable_lora = True
    found["adapters"] = why_not(runner, args)
    args.enable_lora = False
    runner.model.one_more = torch.nn.ModuleList([RadixAttention(2, 8, 1.0, 1, layer_id=1)])
    found["two layers"] = why_not(runner, args)
    return found


def test_why_a_draft_model_needs_its_whole_forward(pair: Pair) -> None:
    found = runs.in_child(reasons, pair)
    assert found.pop("as it is") is None
    assert "object" in found["another pool"]
    assert "LoRA" in found["adapters"]
    assert "2 attention layers" in found["two layers"]


def taken(pair: Pair) -> dict[str, bool]:
    """Whether prefill batches are taken, each with one field of a real one changed."""
    import dataclasses

    import torch
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    from specswitch.engine import workers

    engine = Engine("v2", *pair, **runs.options(0, "lazy"))
    rows, seen = engine.worker.kv_rows, []
    stock = workers.EAGLEWorkerV2.forward_batch_generation

    def watch(worker: Any, batch: Any) -> Any:
        seen.append(dataclasses.replace(batch))
        return stock(worker, batch)

    workers.EAGLEWorkerV2.forward_batch_generation = watch
    engine.generate([loads.prompt(random.Random(1), 20)], {"max_new_tokens": 1})
    batch = next(b for b in seen if b.forward_mode.is_extend())
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "mixed": {"forward_mode": ForwardMode.MIXED},
        "embeddings": {"input_embeds": torch.zeros(1)},
        "replaced embeddings": {"replace_embeds": torch.zeros(1)},
        "an image": {"multimodal_inputs": [object()]},
        "other ranks' tokens": {"global_num_tokens": [20]},
    }
    return {name: rows.takes(dataclasses.replace(batch, **change)) for name, change in changes.items()}


def test_prefills_of_token_ids_alone_are_taken(pair: Pair) -> None:
    found = runs.in_child(taken, pair)
    assert found.pop("as it is")
    assert len(found) == 5
    assert not any(found.values())


def served_whole(path: str, pair: Pair) -> tuple[dict[str, list[int]], bool, str]:
    """Outputs of a crossing load where the draft's forward cannot be spared."""
    from specswitch.engine import liveness, workers

    workers.why_not = lambda *_: "it is a test"
    engine = Engine(path, *pair, **runs.options(4, "lazy"))
    loads.run_crossing(engine, *loads.crossing())
    report = liveness.report(engine.scheduler)
    outputs = {rid: out.output_ids for rid, out in engine.run().items()}
    return outputs, report["kv_rows_only"], report["worker_class"]


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_a_draft_that_needs_its_whole_forward_is_served_with_it(
    pair: Pair, path: str, plain_crossing: dict[str, list[int]]
) -> None:
    outputs, rows_only, worker = runs.in_child(served_whole, path, pair)
    assert worker.startswith("Dynamic")
    assert not rows_only
    assert outputs == plain_crossing
