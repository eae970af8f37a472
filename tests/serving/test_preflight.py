"""Bad input is refused before anything is started, naming the value and the cure."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from serving.support import (
    DRAFT_SHAPES,
    HIDDEN,
    write_draft,
    write_safetensors,
    write_target,
)
from specswitch.config import Rule, ServerConfig
from specswitch.serving import preflight
from specswitch.serving.errors import FlagError, PortBusyError, PreflightError
from specswitch.serving.flags import parse_flags
from specswitch.serving.model_files import tensor_shapes
from specswitch.serving.spec import LaunchSpec, spec_from_config

SHAPE = [
    *("--speculative-num-steps", "3"),
    *("--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4"),
]


def check(target: Path, draft: Path | None, *more: str, algorithm: str = "EAGLE3") -> None:
    flags = ["--model-path", str(target), "--device", "cpu", *more]
    if draft is not None:
        flags += ["--speculative-algorithm", algorithm, "--speculative-draft-model-path", str(draft), *SHAPE]
    preflight.check(parse_flags(flags), {})


def spec(cfg: ServerConfig, tmp_path: Path, **changes: Any) -> LaunchSpec:
    return spec_from_config(
        ServerConfig.model_validate(cfg.model_dump() | changes), tmp_path / "run" / "server.log"
    )


def test_a_fitting_pair_passes(target: Path, draft: Path) -> None:
    check(target, None)
    check(target, draft)


def test_an_eagle3_head_under_eagle_is_refused(target: Path, draft: Path) -> None:
    """Field case A24 (a): it would load and run at accept length exactly 1."""
    with pytest.raises(PreflightError, match=r"EAGLE with a LlamaForCausalLMEagle3.*use EAGLE3"):
        check(target, draft, algorithm="EAGLE")


def test_a_whole_model_as_eagle3_draft_is_refused(target: Path, tmp_path: Path) -> None:
    other = write_target(tmp_path / "other")
    with pytest.raises(PreflightError, match="not an EAGLE-3 head"):
        check(target, other)


def test_no_draft_path_is_refused(target: Path) -> None:
    """Field case A24 (b): the engine would load the target twice and die."""
    flags = ["--model-path", str(target), "--device", "cpu", "--speculative-algorithm", "EAGLE3", *SHAPE]
    with pytest.raises(PreflightError, match="without --speculative-draft-model-path"):
        preflight.check(parse_flags(flags), {})


def test_partial_step_flags_are_refused(target: Path, draft: Path) -> None:
    """Field case A24 (c)."""
    flags = ["--model-path", str(target), "--device", "cpu", "--speculative-algorithm", "EAGLE3"]
    flags += ["--speculative-draft-model-path", str(draft), "--speculative-num-steps", "3"]
    with pytest.raises(PreflightError, match="give all three"):
        preflight.check(parse_flags(flags), {})


def test_draft_tokens_that_the_engine_would_rewrite_are_refused_or_told(
    target: Path, draft: Path, tmp_path: Path
) -> None:
    """Field case A24 (d): a configuration cannot hold 8 where 4 runs; flags are told what runs."""
    with pytest.raises(ValueError, match="num_draft_tokens=4"):
        ServerConfig(model=str(target), draft=str(draft), path="v2", num_steps=3, num_draft_tokens=8)
    given = ["--model-path", str(target), "--speculative-algorithm", "EAGLE3"]
    given += ["--speculative-draft-model-path", str(draft), *SHAPE[:-1], "8"]
    decision, problems = preflight.examine(parse_flags(given), {})
    assert decision.num_draft_tokens == 4
    assert problems == []


def test_v2_with_topk_2_never_reaches_a_launch() -> None:
    """Field case A22: path v2 with top-k 2."""
    with pytest.raises(ValueError, match="topk=2"):
        ServerConfig(model="m", draft="d", path="v2", topk=2)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 16}, "hidden states of 16"),
        ({"vocab_size": 64}, "vocab_size is 64"),
        ({"draft_vocab_size": 64}, "draft_vocab_size 64"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 4]}}, r"layers \[4\]"),
        ({"eagle_config": None}, "default capture layers"),
        ({"hidden_size": 3 * HIDDEN, "target_hidden_size": HIDDEN}, "takes the target's hidden states"),
    ],
)
def test_a_draft_of_another_target_is_refused(
    target: Path, tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    """Field case A24: vocabulary, hidden size and auxiliary layers have to fit."""
    with pytest.raises(PreflightError, match=named):
        check(target, write_draft(tmp_path / "wrong", **changes))


def test_default_layers_are_fine_for_a_deep_target(tmp_path: Path) -> None:
    target = write_target(tmp_path / "deep", num_hidden_layers=30)
    check(target, write_draft(tmp_path / "d", eagle_config=None))


@pytest.mark.parametrize("lost", ["fc.weight", "midlayer.hidden_norm.weight", "d2t", "lm_head.weight"])
def test_a_head_with_a_weight_missing_is_refused(target: Path, tmp_path: Path, lost: str) -> None:
    shapes = {k: v for k, v in DRAFT_SHAPES.items() if k != lost}
    with pytest.raises(PreflightError, match=r"lacks the weights.*random"):
        check(target, write_draft(tmp_path / "lossy", shapes))


def test_other_names_of_the_same_weights_are_accepted(target: Path, tmp_path: Path) -> None:
    shapes = {k.replace("midlayer.", "model.layers.0."): v for k, v in DRAFT_SHAPES.items()}
    check(target, write_draft(tmp_path / "renamed", shapes))


def test_an_fc_of_another_width_is_refused(target: Path, tmp_path: Path) -> None:
    shapes = DRAFT_SHAPES | {"fc.weight": (HIDDEN, 2 * HIDDEN)}
    with pytest.raises(PreflightError, match=r"fc\.weight is 8 x 16"):
        check(target, write_draft(tmp_path / "narrow", shapes))


def test_a_missing_model_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match=r"no-such-model.*does not exist"):
        check(tmp_path / "no-such-model", None)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["BertModel"]}, "does not generate"),
        ({"architectures": ["RobertaForMaskedLM"]}, "does not generate"),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "does not generate"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "draft head"),
        ({"architectures": []}, "no architectures"),
    ],
)
def test_a_model_of_the_wrong_type_is_refused(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PreflightError, match=named):
        check(write_target(tmp_path / "wrong", **changes), None)


def test_missing_files_are_named(target: Path) -> None:
    (target / "tokenizer.json").unlink()
    (target / "model.safetensors").unlink()
    with pytest.raises(PreflightError, match="no weights") as caught:
        check(target, None)
    assert "no tokenizer" in str(caught.value)
    check(target, None, "--load-format", "dummy", "--skip-tokenizer-init")


def test_weights_cut_short_or_replaced_by_a_pointer_are_refused(target: Path) -> None:
    weights = target / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with pytest.raises(PreflightError, match="cut short"):
        check(target, None)
    weights.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", encoding="utf-8")
    with pytest.raises(PreflightError, match="pointer"):
        check(target, None)


def test_a_missing_shard_is_named(target: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (target / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(PreflightError, match=r"model-2\.safetensors"):
        check(target, None)


def test_damaged_config_is_named(target: Path) -> None:
    (target / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(PreflightError, match=r"config\.json cannot be read"):
        check(target, None)


@pytest.mark.parametrize(("length", "named"), [("8", "too short"), ("1024", "512 positions")])
def test_an_impossible_context_is_refused(target: Path, length: str, named: str) -> None:
    with pytest.raises(PreflightError, match=named):
        check(target, None, "--context-length", length)


def test_tensor_parallelism_that_does_not_divide_the_heads_is_refused(target: Path) -> None:
    with pytest.raises(PreflightError, match=r"size 3 does not divide .* 2 attention heads"):
        check(target, None, "--tp", "3")


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (("--no-such-flag",), "--no-such-flag"),
        (("--max-running-requests", "4"), "--max-running-requests"),
        (("--port", "1"), "--port"),
        (("--speculative-disable-batch-threshold", "4"), "--speculative-disable-batch-threshold"),
        (("--disable-overlap-schedule",), "--disable-overlap-schedule"),
        (("--speculative-adaptive",), "speculative-adaptive"),
        (("--api-key", "k"), "SPECSWITCH_API_KEY"),
        (("--admin-api-key=k",), "SPECSWITCH_API_KEY"),
    ],
)
def test_extra_arguments_cannot_be_unknown_or_override(
    config: ServerConfig, tmp_path: Path, extra: tuple[str, ...], named: str
) -> None:
    with pytest.raises(PreflightError, match=named):
        spec(config, tmp_path, extra_args=extra, rule=Rule(threshold=0))
    assert not (tmp_path / "run").exists()


def test_an_api_key_comes_from_the_environment_and_only_from_there(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spec(config, tmp_path).api_key is None
    monkeypatch.setenv("SPECSWITCH_API_KEY", "k1")
    found = spec(config, tmp_path)
    assert (found.api_key, found.argv[-2:]) == ("k1", ("--api-key", "k1"))
    assert "k1" not in found.environment.values.values()


def test_extra_arguments_that_change_nothing_of_ours_pass(config: ServerConfig, tmp_path: Path) -> None:
    assert "--log-level" in spec(config, tmp_path, extra_args=("--log-level", "debug")).argv


def test_v2_without_overlap_is_told_apart(config: ServerConfig, tmp_path: Path) -> None:
    """Field case A22: asked v2, the flags take v1."""
    with pytest.raises(PreflightError, match=r"path='v2' was asked, these flags take 'v1'.*overlap"):
        spec(config, tmp_path, overlap=False)


def test_a_rule_without_speculation_is_refused_not_ignored(config: ServerConfig, tmp_path: Path) -> None:
    flags = ["--model-path", config.model, "--device", "cpu", "--speculative-disable-batch-threshold", "4"]
    with pytest.raises(PreflightError, match="nothing to switch"):
        preflight.check(parse_flags(flags), {})
    with pytest.raises(PreflightError, match="threshold=4 with path='none'"):
        spec(config, tmp_path, path="none", draft=None, rule=Rule(threshold=4))


def test_a_busy_port_is_refused(config: ServerConfig, tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as s, pytest.raises(PortBusyError, match="taken"):
        spec(config, tmp_path, port=s.getsockname()[1])


def test_an_output_directory_that_cannot_be_written_is_refused(
    config: ServerConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").write_text("a file", encoding="utf-8")
    with pytest.raises(PreflightError, match="choose another output directory"):
        spec(config, tmp_path)


def test_a_full_disk_is_told_before_the_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(preflight.tempfile, "NamedTemporaryFile", full)
    with pytest.raises(PreflightError, match="No space left"):
        preflight.check_output(tmp_path)


def test_no_gpu_is_told_with_the_way_out(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "count_gpus", lambda: 0)
    with pytest.raises(PreflightError, match="--device cpu"):
        preflight.check(parse_flags(["--model-path", str(target), "--device", "cuda"]), {})
    monkeypatch.setattr(preflight, "count_gpus", lambda: 1)
    with pytest.raises(PreflightError, match="2 needs as many GPUs"):
        preflight.check(parse_flags(["--model-path", str(target), "--tp", "2"]), {})


def test_every_problem_is_told_at_once(tmp_path: Path, draft: Path) -> None:
    with pytest.raises(PreflightError) as caught:
        check(tmp_path / "gone", None, "--speculative-disable-batch-threshold", "4")
    assert "does not exist" in str(caught.value)
    assert "nothing to switch" in str(caught.value)


def test_it_takes_less_than_two_seconds(config: ServerConfig, tmp_path: Path) -> None:
    begun = time.process_time()
    spec(config, tmp_path)
    assert time.process_time() - begun < 2


def test_the_path_of_an_odd_safetensors_header_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_safetensors(path, {"a": (2, 3), "b": ()})
    assert tensor_shapes(path) == {"a": (2, 3), "b": ()}
    path.write_bytes(b"\x10\0\0\0\0\0\0\0" + b"not json at all!")
    with pytest.raises(PreflightError, match="damaged header"):
        tensor_shapes(path)


def test_flag_errors_are_preflight_errors() -> None:
    assert issubclass(FlagError, PreflightError)
