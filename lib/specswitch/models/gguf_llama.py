"""A Llama in a GGUF file as a checkpoint directory: weights dequantised, tokenizer and chat template kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

if TYPE_CHECKING:
    import numpy as np

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3


def convert(file: Path, dest: Path) -> None:
    """Write config, bf16 weights, tokenizer and generation defaults of a tied-head Llama into `dest`.

    Raises ValueError when the file holds another architecture or an unknown tensor.
    """
    import gguf
    import torch
    from safetensors.torch import save_file

    reader = gguf.GGUFReader(file)
    fields = {name: field.contents for name, field in reader.fields.items()}
    if (architecture := fields["general.architecture"]()) != "llama":
        raise ValueError(f"{file.name} holds a {architecture!r}, not a llama")
    dest.mkdir(parents=True, exist_ok=True)
    config = _config(fields)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = {
        name: torch.from_numpy(array.copy()).to(torch.bfloat16) for name, array in _weights(reader, heads)
    }
    save_file(tensors, dest / "model.safetensors", metadata={"format": "pt"})
    _write_json(dest / "config.json", config)
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(dest / "generation_config.json", ends)
    _write_tokenizer(fields, config, dest)


def _weights(reader: Any, heads: dict[str, int]) -> Iterator[tuple[str, np.ndarray]]:
    """(checkpoint name, fp32 array) of every tensor."""
    from gguf.quants import dequantize

    whole = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    for tensor in reader.tensors:
        array = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        if tensor.name in whole:
            yield whole[tensor.name], array
            continue
        kind, layer, part, *_ = tensor.name.split(".")
        if kind != "blk" or part not in NAMES:
            raise ValueError(f"unknown tensor {tensor.name!r}: this file is not the model it was written for")
        if part in heads:
            array = _halves(array, heads[part])
        yield f"model.layers.{layer}.{NAMES[part]}.weight", array


def _halves(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from rotary pairs side by side (GGUF) to halves (checkpoints)."""
    rows, width = array.shape
    return array.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    heads, hidden = fields["llama.attention.head_count"](), fields["llama.embedding_length"]()
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": fields["llama.vocab_size"](),
        "hidden_size": hidden,
        "intermediate_size": fields["llama.feed_forward_length"](),
        "num_hidden_layers": fields["llama.block_count"](),
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"](),
        "head_dim": hidden // heads,
        "max_position_embeddings": fields["llama.context_length"](),
        "rope_theta": fields["llama.rope.freq_base"](),
        # Stored as fp32: 9.99999975e-06 for 1e-05.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']():.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"](),
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"](),
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"](),
        "torch_dtype": "bfloat16",
    }


def _write_tokenizer(fields: dict[str, Any], config: dict[str, Any], dest: Path) -> None:
    """Byte-level BPE that splits digits one by one, as the `smollm` pre-tokenizer does."""
    if (kind := fields["tokenizer.ggml.pre"]()) != "smollm":
        raise ValueError(f"pre-tokenizer {kind!r}: only 'smollm' is known here")
    tokens = fields["tokenizer.ggml.tokens"]()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]()]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = fields["tokenizer.ggml.token_type"]()
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.save(str(dest / "tokenizer.json"))
    specials = {
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
    }
    _write_json(dest / "special_tokens_map.json", specials)
    _write_json(
        dest / "tokenizer_config.json",
        specials
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
            "chat_template": fields["tokenizer.chat_template"](),
        },
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
