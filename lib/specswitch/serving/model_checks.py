"""Problems of the target's and the draft's directories, as sentences that name the value and the cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specswitch.serving import model_files, pairing
from specswitch.serving.flags import ServerFlags

MIN_CONTEXT = 16
_NOT_GENERATIVE = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForRewardModel",
    "EmbeddingModel",
)


def target_problems(flags: ServerFlags, directory: Path, config: dict[str, Any]) -> list[str]:
    """What keeps the target in `directory` with this config.json from being served with these flags."""
    problems = []
    architecture = config["architectures"][0]
    if pairing.is_eagle3_head(config):
        problems.append(
            f"model {str(directory)!r} is a draft head ({architecture}): give its target as the model"
        )
    elif not _generates(config):
        problems.append(
            f"model {str(directory)!r} is a {architecture}, which does not generate text: give a causal language model"
        )
    if flags.load_format != "dummy" and (problem := model_files.weight_problem(directory, "model")):
        problems.append(problem)
    tokenizer = Path(flags.tokenizer_path) if flags.tokenizer_path else directory
    if not flags.skip_tokenizer_init and not model_files.has_tokenizer(tokenizer):
        names = ", ".join(model_files.TOKENIZER_FILES[:3])
        problems.append(
            f"no tokenizer in {str(tokenizer)!r} ({names}): copy it there or give --tokenizer-path"
        )
    return problems + _size_problems(flags, model_files.text_config(config))


def draft_problems(
    flags: ServerFlags, target: dict[str, Any] | None, draft: dict[str, Any] | None
) -> list[str]:
    """What keeps the draft from being the draft of this target under the given algorithm."""
    algorithm = (flags.speculative_algorithm or "").upper()
    if flags.speculative_draft_model_path is None:
        if algorithm == "EAGLE3":
            return ["EAGLE3 without --speculative-draft-model-path: give the directory of the EAGLE-3 head"]
        return []  # EAGLE: some targets bring their own head
    if draft is None:
        return []
    directory = Path(flags.speculative_draft_model_path)
    wrong = pairing.algorithm_problem(algorithm, draft)
    if wrong:
        return [wrong]
    problems = pairing.pair_problems(target, draft) if target and algorithm == "EAGLE3" else []
    if (flags.speculative_draft_load_format or flags.load_format) == "dummy":
        return problems
    broken = model_files.weight_problem(directory, "draft")
    return problems + ([broken] if broken else pairing.weight_problems(draft, directory))


def _generates(config: dict[str, Any]) -> bool:
    architecture = config["architectures"][0]
    if config.get("is_encoder_decoder") or architecture.endswith(_NOT_GENERATIVE):
        return False
    return not architecture.endswith("Model") or architecture.endswith("LMHeadModel")


def _size_problems(flags: ServerFlags, sizes: dict[str, Any]) -> list[str]:
    problems = []
    heads, tp = sizes.get("num_attention_heads"), flags.tensor_parallel_size
    if heads and heads % tp:
        problems.append(f"tensor parallel size {tp} does not divide the model's {heads} attention heads")
    limit, asked = sizes.get("max_position_embeddings"), flags.context_length
    if asked is not None and asked < MIN_CONTEXT:
        problems.append(f"context length {asked} is too short to serve anything: give at least {MIN_CONTEXT}")
    if asked is not None and limit is not None and asked > limit and not sizes.get("rope_scaling"):
        problems.append(f"context length {asked} exceeds the model's {limit} positions: give at most {limit}")
    return problems
