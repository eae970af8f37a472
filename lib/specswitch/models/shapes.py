"""Directories with a real model's shape and no weights, for `--load-format dummy`.

Speed depends on shapes, not on what the weights say, so a machine without model files can still measure steps.
Acceptance is then simulated: every figure made this way is labelled synthetic.
"""

from __future__ import annotations

import json
from pathlib import Path

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "torch_dtype": "bfloat16",
}
DRAFT_VOCAB = 32000
SHAPES = {"llama-8b": LLAMA_8B}


def write_shape(name: str, directory: Path) -> tuple[Path, Path]:
    """Write `target/config.json` and `draft/config.json` of a named shape; returns both directories.

    The draft is a one-layer EAGLE-3 head of the target's width with a draft vocabulary of 32000.

    Raises:
        KeyError: no such shape; the message lists the known ones.
    """
    if name not in SHAPES:
        raise KeyError(f"no shape {name!r}: known are {', '.join(sorted(SHAPES))}")
    config = SHAPES[name]
    draft = config | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "num_hidden_layers": 1,
        "draft_vocab_size": DRAFT_VOCAB,
    }
    directories = directory / "target", directory / "draft"
    for path, content in zip(directories, (config, draft), strict=True):
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return directories
