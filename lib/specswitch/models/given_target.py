"""A target from any Llama checkpoint directory, as the plain torch module of `network`.

What that module does not compute (biases, scaled rotary positions, other architectures) is refused: a target
that is a little different from the engine's would train a head for a model that nobody serves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from specswitch.models.network import Shape, Target

INDEX = "model.safetensors.index.json"


class UnsupportedTargetError(ValueError):
    """The directory holds no Llama that `network.Target` computes exactly."""


def read_config(directory: Path) -> dict[str, Any]:
    """The directory's config.json. Raises UnsupportedTargetError if there is none."""
    path = directory / "config.json"
    if not path.is_file():
        raise UnsupportedTargetError(f"no config.json in {directory}: give the directory of a checkpoint")
    return json.loads(path.read_text(encoding="utf-8"))


def target_shape(directory: Path) -> Shape:
    """Sizes of the target; the draft is given the engine's default layers and the whole vocabulary.

    Raises:
        UnsupportedTargetError: it is no plain Llama; the message names what differs.
    """
    config = read_config(directory)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = config.get("rope_theta") or rope.get("rope_theta") or 10000.0
    problems = {
        f"architecture {config.get('architectures')}": config.get("architectures") != ["LlamaForCausalLM"],
        "attention biases": config.get("attention_bias", False),
        "MLP biases": config.get("mlp_bias", False),
        f"activation {config.get('hidden_act')}": config.get("hidden_act", "silu") != "silu",
        f"rotary positions {rope}": rope.get("rope_type", rope.get("type", "default")) != "default",
    }
    found = [name for name, wrong in problems.items() if wrong]
    if found:
        raise UnsupportedTargetError(
            f"{directory}: {', '.join(found)}: only plain Llama models can be read here"
        )
    heads, layers = config["num_attention_heads"], config["num_hidden_layers"]
    return Shape(
        hidden=config["hidden_size"],
        layers=layers,
        heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        mlp=config["intermediate_size"],
        vocab=config["vocab_size"],
        draft_vocab=config["vocab_size"],
        context=config["max_position_embeddings"],
        aux_layers=default_aux_layers(layers),
        rope_theta=theta,
        norm_eps=config["rms_norm_eps"],
        tied=config.get("tie_word_embeddings", False),
    )


def default_aux_layers(layers: int) -> tuple[int, int, int]:
    """Layers (from 0) whose outputs the engine captures by default, in shallow targets evenly spread ones.

    The engine's numbers 2, n // 2, n - 3 name the layers BEHIND the captured states; with fewer than 7 layers
    they collapse, so the draft's config then has to name others.
    """
    if layers >= 7:
        return 1, layers // 2 - 1, layers - 4
    if layers < 4:
        raise UnsupportedTargetError(
            f"{layers} layers: an EAGLE-3 head reads what stands before three later ones"
        )
    return 0, (layers - 1) // 2, layers - 2


def load_target(directory: Path, shape: Shape, dtype: torch.dtype) -> Target:
    """The target's weights on the CPU, for reading only. Missing or unknown tensors are an error."""
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(directory):
        tensors |= {name: t.to(dtype) for name, t in load_file(file).items() if "rotary_emb" not in name}
    if shape.tied:
        tensors.pop("lm_head.weight", None)
    with torch.device("meta"):
        target = Target(shape)
    target.load_state_dict(tensors, assign=True)
    return target.requires_grad_(False)


def _weight_files(directory: Path) -> list[Path]:
    if (directory / INDEX).is_file():
        index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
        return [directory / name for name in sorted(set(index["weight_map"].values()))]
    if not (directory / "model.safetensors").is_file():
        raise UnsupportedTargetError(f"no model.safetensors in {directory}: only safetensors are read here")
    return [directory / "model.safetensors"]
