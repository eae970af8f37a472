"""Which worker given flags take. `test_engine_decision` compares the same rules with the engine itself."""

from __future__ import annotations

import itertools

import pytest

from specswitch.serving.errors import FlagError
from specswitch.serving.flags import parse_flags
from specswitch.serving.path_rules import PathDecision, decide, spec_v2_enabled

EAGLE3 = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d"]


def shape(steps: int = 3, topk: int = 1, tokens: int = 4) -> list[str]:
    return [
        *("--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", str(topk)),
        *("--speculative-num-draft-tokens", str(tokens)),
    ]


def decision(*flags: str, env: str | None = None, target: str | None = None) -> PathDecision:
    environment = {} if env is None else {"SGLANG_ENABLE_SPEC_V2": env}
    return decide(parse_flags(["--model-path", "m", *flags]), environment, target)


@pytest.mark.parametrize(
    ("env", "topk", "no_overlap"), list(itertools.product([None, "0", "1"], [1, 2], [False, True]))
)
def test_v2_takes_an_unset_or_true_variable_and_topk_1_and_overlap(
    env: str | None, topk: int, no_overlap: bool
) -> None:
    """Field case A22: the whole matrix."""
    flags = [*EAGLE3, *shape(topk=topk), *(["--disable-overlap-schedule"] if no_overlap else [])]
    got = decision(*flags, env=env)
    is_v2 = env in (None, "1") and topk == 1 and not no_overlap
    assert got.path == ("v2" if is_v2 else "v1")
    assert got.worker_class == ("EAGLEWorkerV2" if is_v2 else "EAGLEWorker")
    assert got.overlap == is_v2
    assert got.supported


@pytest.mark.parametrize(
    ("value", "enabled"),
    [("true", True), ("YES", True), ("y", True), ("False", False), ("no", False), ("N", False)],
)
def test_the_variable_is_read_as_the_engine_reads_it(value: str, enabled: bool) -> None:
    assert spec_v2_enabled(value)[0] is enabled


@pytest.mark.parametrize("value", ["on", "", "off", "2"])
def test_other_words_mean_the_default_and_are_explained(value: str) -> None:
    """Field case A22: `on` is none of the words that the engine accepts."""
    enabled, words = spec_v2_enabled(value)
    assert enabled
    assert "warns" in words


def test_a_rule_puts_the_dynamic_class_in_place_of_the_stock_one() -> None:
    got = decision(*EAGLE3, *shape(), "--speculative-disable-batch-threshold", "0")
    assert (got.worker_class, got.stock_class) == ("DynamicEAGLEWorkerV2", "EAGLEWorkerV2")
    assert any("rule" in r for r in got.reasons)


def test_no_algorithm_is_the_plain_worker_and_takes_no_rule() -> None:
    assert decision().path == "none"
    assert decision().worker_class == "TpModelWorker"
    with_rule = decision("--speculative-disable-batch-threshold", "4")
    assert not with_rule.supported
    assert "nothing to switch" in with_rule.refused[0]


def test_draft_tokens_follow_the_steps_with_topk_1() -> None:
    """Field case A24 (d): steps 3 with draft tokens 8 is in truth 4."""
    got = decision(*EAGLE3, *shape(3, 1, 8))
    assert got.num_draft_tokens == 4
    assert any("8" in r and "4" in r for r in got.reasons)


def test_steps_alone_are_refused_with_the_cure() -> None:
    """Field case A24 (c): the engine would compare None with a number."""
    got = decision(*EAGLE3, "--speculative-num-steps", "3")
    assert not got.supported
    assert "--speculative-eagle-topk" in got.refused[0]
    assert "3 1 4" in got.refused[0]


def test_no_shape_at_all_on_llama_is_topk_4_which_v2_cannot_run() -> None:
    got = decision(*EAGLE3, target="LlamaForCausalLM")
    assert (got.path, got.num_steps, got.topk, got.num_draft_tokens) == ("v2", 5, 4, 8)
    assert not got.supported
    on_v1 = decision(*EAGLE3, "--disable-overlap-schedule", target="LlamaForCausalLM")
    assert on_v1.supported


@pytest.mark.parametrize(
    ("flags", "worker"),
    [
        (["--speculative-algorithm", "NGRAM"], "NGRAMWorker"),
        (["--speculative-algorithm", "STANDALONE", *shape()], "StandaloneWorkerV2"),
        ([*EAGLE3, *shape(), "--enable-multi-layer-eagle"], "MultiLayerEagleWorkerV2"),
    ],
)
def test_workers_without_a_counterpart_of_ours_are_not_supported(flags: list[str], worker: str) -> None:
    got = decision(*flags)
    assert (got.path, got.worker_class) == ("other", worker)
    assert not got.supported
    assert decision(*flags, "--speculative-disable-batch-threshold", "4").refused


@pytest.mark.parametrize(
    "flags",
    [
        ["--speculative-adaptive"],
        ["--enable-dp-attention"],
        ["--pp-size", "2"],
        ["--enable-two-batch-overlap"],
    ],
)
def test_features_that_interfere_are_refused_only_with_a_rule(flags: list[str]) -> None:
    """Field case A27: the engine's own adaptive feature together with the switch."""
    assert decision(*EAGLE3, *shape(), *flags).supported
    assert not decision(*EAGLE3, *shape(), *flags, "--speculative-disable-batch-threshold", "4").supported


def test_trees_on_pages_are_refused_as_the_engine_does() -> None:
    assert not decision(*EAGLE3, *shape(3, 4, 8), "--page-size", "16").supported
    assert decision(*EAGLE3, *shape(3, 4, 8), "--page-size", "16", "--attention-backend", "fa3").supported


def test_an_unknown_algorithm_is_a_flag_error() -> None:
    with pytest.raises(FlagError, match="EAGLE9"):
        decision("--speculative-algorithm", "EAGLE9")
