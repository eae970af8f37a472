"""The pair as checkpoint directories in the layout that engines load, and back.

bf16 safetensors, the tensor names of Llama and of EAGLE-3 heads. The draft's config names its three target
layers outright: the engine's default collapses on shallow targets.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from specswitch.models.given_target import load_target, target_shape
from specswitch.models.network import Draft, Shape, Target

WEIGHTS, CONFIG = "model.safetensors", "config.json"
END_ID, PAD_ID = 0, 1


def target_config(shape: Shape) -> dict[str, Any]:
    """config.json of the target."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.mlp,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_theta,
        "rms_norm_eps": shape.norm_eps,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": shape.tied,
        "bos_token_id": END_ID,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        "torch_dtype": "bfloat16",
    }


def draft_config(shape: Shape) -> dict[str, Any]:
    """config.json of the draft."""
    return target_config(shape) | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": shape.draft_vocab,
        "tie_word_embeddings": False,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(shape.aux_layers),
            "use_aux_hidden_state": True,
        },
    }


def shape_of(target_directory: Path, draft_directory: Path) -> Shape:
    """The pair's sizes as its two config files state them."""
    draft = json.loads((draft_directory / CONFIG).read_text(encoding="utf-8"))
    first, second, third = draft["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    return replace(
        target_shape(target_directory),
        draft_vocab=draft["draft_vocab_size"],
        aux_layers=(first, second, third),
    )


def save_target(target: Target, shape: Shape, directory: Path) -> None:
    """Write config and weights of the target."""
    _save(target, target_config(shape), directory)
    generation = {"bos_token_id": END_ID, "eos_token_id": END_ID, "pad_token_id": PAD_ID}
    _write_json(generation, directory / "generation_config.json")


def save_draft(
    draft: Draft, shape: Shape, directory: Path, target_config: dict[str, Any] | None = None
) -> None:
    """Write config and weights of the draft; `target_config`: values it takes over from the target's config."""
    _save(draft, draft_config(shape) | (target_config or {}), directory)


def load_pair(target_directory: Path, draft_directory: Path, dtype: torch.dtype) -> tuple[Target, Draft]:
    """Both models from their directories, for reading only. Missing or unknown tensors are an error."""
    shape = shape_of(target_directory, draft_directory)
    draft = Draft(shape)
    draft.load_state_dict(load_file(draft_directory / WEIGHTS))
    return load_target(target_directory, shape, dtype), draft.to(dtype).requires_grad_(False)


def round_weights(module: nn.Module) -> None:
    """Round the parameters in place to what bf16 files will hold, so that later stages see those values."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))


def _save(module: nn.Module, config: dict[str, Any], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (t if name == "d2t" else t.to(torch.bfloat16)).contiguous().cpu()
        for name, t in module.state_dict().items()
    }
    unfinished = directory / f".{WEIGHTS}.part"
    save_file(tensors, unfinished, metadata={"format": "pt"})
    os.replace(unfinished, directory / WEIGHTS)
    _write_json(config, directory / CONFIG)


def _write_json(content: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
