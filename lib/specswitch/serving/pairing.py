"""Whether a draft is an EAGLE-3 head for a target: the engine loads a wrong pair silently and accepts nothing.

Weights under unknown names are dropped by the engine and missing ones keep their random start, so the names and
shapes in the files are compared with what the head needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specswitch.serving.model_files import all_tensor_shapes, text_config

LLAMA_HEAD = "LlamaForCausalLMEagle3"
AUX_STATES = 3
_LAYER_WEIGHTS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
    "input_layernorm",
    "hidden_norm",
    "post_attention_layernorm",
)


def is_eagle3_head(config: dict[str, Any]) -> bool:
    """Whether a config.json describes an EAGLE-3 draft head."""
    return any("Eagle3" in name for name in config.get("architectures", ()))


def algorithm_problem(algorithm: str, draft: dict[str, Any]) -> str | None:
    """Why the speculative algorithm does not go with the draft's architecture; None if it does."""
    architecture = draft["architectures"][0]
    if algorithm == "EAGLE3" and not is_eagle3_head(draft):
        return f"the draft is a {architecture}, not an EAGLE-3 head such as {LLAMA_HEAD}: give the head's directory"
    if algorithm in ("EAGLE", "NEXTN") and is_eagle3_head(draft):
        return (
            f"--speculative-algorithm {algorithm} with a {architecture}: it would load and never accept a draft; "
            "use EAGLE3"
        )
    return None


def pair_problems(target: dict[str, Any], draft: dict[str, Any]) -> list[str]:
    """Why the EAGLE-3 head (its config.json) does not fit the target (its config.json); empty if it fits."""
    sizes = text_config(target)
    hidden, vocab, layers = (sizes.get(k) for k in ("hidden_size", "vocab_size", "num_hidden_layers"))
    width_in = draft.get("target_hidden_size", draft.get("hidden_size"))
    problems = []
    if hidden is not None and width_in != hidden:
        problems.append(f"the draft expects hidden states of {width_in}, the target has hidden_size {hidden}")
    if vocab is not None and draft.get("vocab_size") != vocab:
        problems.append(f"the draft's vocab_size is {draft.get('vocab_size')}, the target's is {vocab}")
    problems += _vocabulary_problems(draft)
    problems += _layer_problems(draft, layers)
    if hidden is not None and draft.get("hidden_size") == AUX_STATES * hidden:
        problems.append(
            f"the draft's hidden_size {draft['hidden_size']} equals {AUX_STATES} x {hidden}: the engine then takes "
            "the target's hidden states for its own"
        )
    return [f"{p}: this is not a draft of this target" if "the target" in p else p for p in problems]


def weight_problems(draft: dict[str, Any], directory: Path) -> list[str]:
    """Why the head's weight files do not hold an EAGLE-3 head for its own config; empty if they do.

    Looks at Llama heads in safetensors only. Raises PreflightError for a damaged file.
    """
    found = all_tensor_shapes(directory) if LLAMA_HEAD in draft["architectures"] else None
    if found is None:
        return []
    shapes = {n.removeprefix("model.").replace("midlayer.", "layers.0."): s for n, s in found.items()}
    needed = [
        f"layers.{i}.{w}.weight" for i in range(draft.get("num_hidden_layers", 1)) for w in _LAYER_WEIGHTS
    ]
    fused = {"q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj"}
    fused |= {"gate_proj": "gate_up_proj", "up_proj": "gate_up_proj"}
    needed += ["fc.weight", "norm.weight"]
    own_vocab = draft.get("draft_vocab_size")
    if own_vocab is not None and not draft.get("tie_word_embeddings"):
        needed.append("lm_head.weight")
    if own_vocab not in (None, draft.get("vocab_size")):
        needed.append("d2t")
    missing = [n for n in needed if n not in shapes and _fused_name(n, fused) not in shapes]
    problems = []
    if missing:
        problems.append(
            f"draft {str(directory)!r} lacks the weights {', '.join(missing)}: the engine would fill them with "
            "random numbers"
        )
    width_in = draft.get("target_hidden_size", draft.get("hidden_size"))
    fc = shapes.get("fc.weight")
    if (
        fc is not None
        and width_in is not None
        and fc != (draft.get("hidden_size"), _aux_states(draft) * width_in)
    ):
        problems.append(
            f"the draft's fc.weight is {fc[0]} x {fc[1]}, its config asks for "
            f"{draft.get('hidden_size')} x {_aux_states(draft) * width_in}"
        )
    return problems


def _vocabulary_problems(draft: dict[str, Any]) -> list[str]:
    own, whole = draft.get("draft_vocab_size"), draft.get("vocab_size")
    if own is None or whole is None or own == whole:
        return []
    if own > whole:
        return [f"draft_vocab_size {own} is larger than vocab_size {whole}"]
    if draft.get("tie_word_embeddings"):
        return [
            f"tie_word_embeddings with draft_vocab_size {own} of {whole}: set it to false in the draft's config"
        ]
    return []


def _layer_problems(draft: dict[str, Any], target_layers: int | None) -> list[str]:
    if target_layers is None:
        return []
    ids = _layer_ids(draft)
    if ids is None:
        default = [2, target_layers // 2, target_layers - 3]
        if len(set(default)) < AUX_STATES or min(default) < 0 or default != sorted(default):
            return [
                f"with {target_layers} target layers the engine's default capture layers {default} do not exist "
                "or coincide: set eagle_config.eagle_aux_hidden_state_layer_ids in the draft's config"
            ]
        return []
    wrong = [i for i in ids if not isinstance(i, int) or not 0 <= i < target_layers]
    if wrong:
        return [f"the draft reads target layers {wrong}, the target has {target_layers} layers"]
    if len(ids) != _aux_states(draft):
        return [f"the draft names {len(ids)} target layers {ids} for {_aux_states(draft)} hidden states"]
    return []


def _layer_ids(draft: dict[str, Any]) -> list[int] | None:
    eagle = draft.get("eagle_config") or {}
    return eagle.get("eagle_aux_hidden_state_layer_ids") or None


def _aux_states(draft: dict[str, Any]) -> int:
    ids = _layer_ids(draft)
    return draft.get("num_aux_hidden_states") or (len(ids) if ids else AUX_STATES)


def _fused_name(name: str, fused: dict[str, str]) -> str:
    for part, whole in fused.items():
        if f".{part}." in name:
            return name.replace(part, whole)
    return name
