"""The bundled pair in the real engine: token for token, draft for draft what the plain reference does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engine.harness import Engine, in_process
from models.held_out import handful
from specswitch.models import pair, reference

pytestmark = pytest.mark.engine

PROMPTS, NEW_TOKENS = 16, 32
FUSED = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


def one_by_one(path: str) -> tuple[list[list[int]], int, int]:
    """Output ids of every prompt, one request at a time; accepted drafts and verifications in all."""
    engine = Engine(path, pair.target_dir(), pair.draft_dir())
    params = {"max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    outputs = [engine.generate([prompt], params)[0] for prompt in handful(PROMPTS)]
    return (
        [o.output_ids for o in outputs],
        sum(o.meta["spec_num_correct_drafts"] for o in outputs),
        sum(o.meta["spec_verify_ct"] for o in outputs),
    )


def draft_weights() -> dict[str, Any]:
    """What the engine's draft model holds after loading: name -> array."""
    model = Engine("v1", pair.target_dir(), pair.draft_dir()).worker.draft_model_runner.model
    arrays = {name: p.detach().float().numpy() for name, p in model.named_parameters()}
    return arrays | {"hot_token_id": model.hot_token_id.numpy()}


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_engine_gives_the_reference_ids_and_accepts_as_many_drafts(path: str) -> None:
    torch.set_num_threads(1)
    models = reference.load(pair.target_dir(), pair.draft_dir())
    traces = [reference.speculate(models, prompt, NEW_TOKENS) for prompt in handful(PROMPTS)]
    ids, accepted, verified = in_process(one_by_one, path)
    assert ids == [trace.ids for trace in traces]
    assert verified == sum(len(trace.accepted) for trace in traces)
    assert accepted == sum(sum(trace.accepted) for trace in traces)


def test_every_draft_tensor_of_the_engine_comes_from_the_checkpoint() -> None:
    stored = load_file(pair.draft_dir() / "model.safetensors")
    target = load_file(pair.target_dir() / "model.safetensors")
    held = in_process(draft_weights)
    arange = torch.arange(len(stored["d2t"]))
    assert torch.equal(torch.from_numpy(held.pop("hot_token_id")), stored.pop("d2t") + arange)
    embedding = torch.from_numpy(held.pop("model.embed_tokens.weight"))
    assert torch.equal(embedding, target["model.embed_tokens.weight"].float())
    for name, array in held.items():
        parts = [stored.pop(part).float() for part in checkpoint_names(name)]
        assert torch.equal(torch.from_numpy(array), torch.cat(parts)), name
    assert not stored, "tensors that the engine dropped"


def checkpoint_names(name: str) -> list[str]:
    """The checkpoint tensors that make up an engine parameter."""
    name = name.removeprefix("model.").replace("layers.0", "midlayer")
    for fused, parts in FUSED.items():
        if fused in name:
            return [name.replace(fused, part) for part in parts]
    return [name]
