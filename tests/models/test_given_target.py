"""Reading a Llama checkpoint that others made: sizes, shards, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specswitch.models.given_target import (
    UnsupportedTargetError,
    default_aux_layers,
    load_target,
    target_shape,
)

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 8,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shard", ["1GB", "20KB"])
def test_logits_and_captured_states_are_those_of_transformers(tmp_path: Path, tied: bool, shard: str) -> None:
    torch.manual_seed(0)
    sizes = {k: v for k, v in CONFIG.items() if k not in ("architectures", "rope_theta")}
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    model = LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope, tie_word_embeddings=tied))
    model.save_pretrained(tmp_path, max_shard_size=shard)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 1) is (shard == "20KB")
    shape = target_shape(tmp_path)
    target = load_target(tmp_path, shape, torch.float32)
    ids = torch.randint(0, 100, (2, 9))
    with torch.no_grad():
        theirs = model(ids, output_hidden_states=True)
        hidden, aux = target(ids)
    torch.testing.assert_close(target.head(hidden), theirs.logits, atol=1e-4, rtol=1e-4)
    # hidden_states[i] stands before layer i; the engine's default numbers 2, n // 2 and n - 3 are such.
    captured = torch.cat([theirs.hidden_states[i] for i in (2, 4, 5)], -1)
    torch.testing.assert_close(aux, captured, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("layers", "wanted"), [(30, (1, 14, 26)), (8, (1, 3, 4)), (4, (0, 1, 2)), (6, (0, 2, 4))]
)
def test_the_layers_are_the_engines_own_where_those_differ(layers: int, wanted: tuple[int, int, int]) -> None:
    assert default_aux_layers(layers) == wanted


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architectures": ["MistralForCausalLM"]}, "MistralForCausalLM"),
        ({"attention_bias": True}, "attention biases"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "llama3"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"num_hidden_layers": 3}, "3 layers"),
    ],
)
def test_what_is_computed_differently_is_refused_by_name(tmp_path: Path, change: dict, named: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change), encoding="utf-8")
    with pytest.raises(UnsupportedTargetError, match=named):
        target_shape(tmp_path)


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTargetError, match=r"no config\.json"):
        target_shape(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    with pytest.raises(UnsupportedTargetError, match="only safetensors"):
        load_target(tmp_path, target_shape(tmp_path), torch.float32)
