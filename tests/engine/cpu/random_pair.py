"""A target, an EAGLE-3 draft and a tokenizer with mostly random weights, made at test time in a second.

The target leans towards following token t with a fixed partner of t, and its random layers overrule that often
enough to make the output depend on everything before. The draft knows the partners and nothing else, and lacks a
quarter of the vocabulary. So a good part of the drafts is accepted, a good part is not, at every depth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, LAYERS = 64, 4, 2, 16, 128, 4
VOCAB, DRAFT_VOCAB, CONTEXT = 264, 200, 1024
BOS, EOS, PAD = 256, 257, 258
TARGET_NOISE = 0.12  # lower: outputs forget their context; higher: nothing is accepted

Random = Callable[..., torch.Tensor]


def make_random_pair(directory: Path, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Path, Path]:
    """Write `target/` and `draft/` under directory; returns both paths."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int, std: float) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * std).to(dtype)

    target, draft = directory / "target", directory / "draft"
    embedding = random(VOCAB, HIDDEN, std=1.0)
    embedding[:, 0] = 1.0  # something constant for the draft's attention to hold on to
    partner = torch.randperm(VOCAB, generator=generator)
    head = embedding[partner]
    weights = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": torch.ones(HIDDEN, dtype=dtype),
        "lm_head.weight": head,
    }
    for i in range(LAYERS):
        weights |= {f"model.layers.{i}.{k}": v for k, v in _target_layer(random, dtype).items()}
    _write(target, weights, _config("LlamaForCausalLM", LAYERS, KV_HEADS, dtype))
    _write_tokenizer(target)

    kept = torch.arange(DRAFT_VOCAB) + torch.arange(DRAFT_VOCAB) // 4
    weights = {f"midlayer.{k}": v for k, v in _draft_layer(random, dtype).items()} | {
        "fc.weight": random(HIDDEN, 3 * HIDDEN, std=0.02),
        "norm.weight": torch.ones(HIDDEN, dtype=dtype),
        "lm_head.weight": head[kept].clone(),
        "d2t": kept - torch.arange(DRAFT_VOCAB),
        "t2d": torch.zeros(VOCAB, dtype=torch.bool).index_fill_(0, kept, True),
    }
    config = _config("LlamaForCausalLMEagle3", 1, HEADS, dtype) | {
        "draft_vocab_size": DRAFT_VOCAB,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": True},
    }
    _write(draft, weights, config)
    return target, draft


def _target_layer(random: Random, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    std = TARGET_NOISE
    return {
        "self_attn.q_proj.weight": random(HEADS * HEAD_DIM, HIDDEN, std=std),
        "self_attn.k_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN, std=std),
        "self_attn.v_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN, std=std),
        "self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD_DIM, std=std),
        "mlp.gate_proj.weight": random(INTERMEDIATE, HIDDEN, std=std),
        "mlp.up_proj.weight": random(INTERMEDIATE, HIDDEN, std=std),
        "mlp.down_proj.weight": random(HIDDEN, INTERMEDIATE, std=std),
        "input_layernorm.weight": torch.ones(HIDDEN, dtype=dtype),
        "post_attention_layernorm.weight": torch.ones(HIDDEN, dtype=dtype),
    }


def _draft_layer(random: Random, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Attention that looks at its own position and replaces the hidden state by the token's embedding, nearly."""
    look = torch.zeros(HEADS * HEAD_DIM, 2 * HIDDEN, dtype=dtype)
    half = HEAD_DIM // 2
    for h in range(HEADS):
        # The constant feature drives the three fastest rotary pairs: together largest where the distance is zero.
        for pair in range(3):
            look[[h * HEAD_DIM + pair, h * HEAD_DIM + half + pair], 0] = 5.0
    identity = torch.eye(HIDDEN, dtype=dtype)
    return {
        "self_attn.q_proj.weight": look,
        "self_attn.k_proj.weight": look.clone(),
        "self_attn.v_proj.weight": torch.cat([identity, -identity], dim=1),
        "self_attn.o_proj.weight": identity.clone(),
        "mlp.gate_proj.weight": random(INTERMEDIATE, HIDDEN, std=0.05),
        "mlp.up_proj.weight": random(INTERMEDIATE, HIDDEN, std=0.05),
        "mlp.down_proj.weight": random(HIDDEN, INTERMEDIATE, std=0.05),
        "input_layernorm.weight": torch.ones(HIDDEN, dtype=dtype),
        "hidden_norm.weight": torch.ones(HIDDEN, dtype=dtype),
        "post_attention_layernorm.weight": torch.ones(HIDDEN, dtype=dtype),
    }


def _config(architecture: str, layers: int, kv_heads: int, dtype: torch.dtype) -> dict:
    return {
        "architectures": [architecture],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": layers,
        "vocab_size": VOCAB,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def _write(directory: Path, weights: dict[str, torch.Tensor], config: dict) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _write_tokenizer(directory: Path) -> None:
    """One token per byte, ids 0-255 in byte order, then the special tokens."""
    alphabet = [chr(c) for c in range(ord("!"), ord("~") + 1)]
    alphabet += [c for c in sorted(pre_tokenizers.ByteLevel.alphabet()) if c not in alphabet]
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(directory)
