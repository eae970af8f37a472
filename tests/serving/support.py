"""Made-up model directories and process helpers that the tests of serving share."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from specswitch.serving import proc

FAKE_CHILD = Path(__file__).with_name("fake_child.py")
HIDDEN, VOCAB, DRAFT_VOCAB, LAYERS = 8, 32, 16, 4

TARGET_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "vocab_size": VOCAB,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 2,
    "max_position_embeddings": 512,
}
DRAFT_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": HIDDEN,
    "vocab_size": VOCAB,
    "draft_vocab_size": DRAFT_VOCAB,
    "num_hidden_layers": 1,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": True},
}
DRAFT_SHAPES: dict[str, tuple[int, ...]] = {
    "fc.weight": (HIDDEN, 3 * HIDDEN),
    "norm.weight": (HIDDEN,),
    "lm_head.weight": (DRAFT_VOCAB, HIDDEN),
    "d2t": (DRAFT_VOCAB,),
    "t2d": (VOCAB,),
    **{f"midlayer.self_attn.{p}_proj.weight": (HIDDEN, 2 * HIDDEN) for p in "qkv"},
    "midlayer.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
    **{f"midlayer.mlp.{p}_proj.weight": (HIDDEN, HIDDEN) for p in ("gate", "up", "down")},
    **{
        f"midlayer.{n}.weight": (HIDDEN,)
        for n in ("input_layernorm", "hidden_norm", "post_attention_layernorm")
    },
}


def write_safetensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """A file of zeros in float32."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = 4
        for n in shape:
            size *= n
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode("utf-8")
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * offset)


def write_target(directory: Path, **changes: Any) -> Path:
    """A target's directory that passes preflight, its config changed as given."""
    directory.mkdir(parents=True)
    _write_config(directory, TARGET_CONFIG | changes)
    (directory / "tokenizer.json").write_text("{}", encoding="utf-8")
    write_safetensors(directory / "model.safetensors", {"model.embed_tokens.weight": (VOCAB, HIDDEN)})
    return directory


def write_draft(
    directory: Path, shapes: Mapping[str, tuple[int, ...]] = DRAFT_SHAPES, **changes: Any
) -> Path:
    """A draft's directory that fits `write_target`, config and weights changed as given."""
    directory.mkdir(parents=True)
    _write_config(directory, DRAFT_CONFIG | changes)
    write_safetensors(directory / "model.safetensors", shapes)
    return directory


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until the condition holds; False if it does not within the time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def runs(pid: int) -> bool:
    """Whether a process with this pid exists and is no zombie."""
    return proc.identify(pid) is not None


def read_pid(path: Path, timeout_s: float = 30.0) -> int:
    """The pid that a process writes into a file, once it is there."""
    assert wait_for(lambda: path.exists() and path.stat().st_size > 0, timeout_s), f"{path} was not written"
    return int(path.read_text(encoding="utf-8"))


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without what other tests or users left of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SGLANG_", "SPECSWITCH_"))}
    return kept | more


def _write_config(directory: Path, config: Mapping[str, Any]) -> None:
    (directory / "config.json").write_text(json.dumps(dict(config)), encoding="utf-8")
