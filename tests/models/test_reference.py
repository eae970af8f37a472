"""The plain reference: right against an independent Llama, and the pair's acceptance against its control."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from models.held_out import handful
from specswitch.models import pair, reference, untrained
from specswitch.models.train.evaluate import CHAIN, FIRST, PROMPT, accept_length, matches, prompt_rows
from specswitch.models.train.generate import generate


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def models() -> reference.Pair:
    return reference.load(pair.target_dir(), pair.draft_dir())


@pytest.fixture(scope="module")
def no_skill(tmp_path_factory: pytest.TempPathFactory) -> reference.Pair:
    draft = untrained.build(tmp_path_factory.mktemp("control") / "draft", seed=3)
    return reference.load(pair.target_dir(), draft)


def test_target_has_the_logits_of_an_independent_llama(models: reference.Pair) -> None:
    target, _ = models
    independent = LlamaForCausalLM.from_pretrained(pair.target_dir(), dtype=torch.float32)
    ids = torch.tensor(handful(4))
    with torch.no_grad():
        hidden, _aux = target(ids)
        torch.testing.assert_close(target.head(hidden), independent(ids).logits, atol=1e-3, rtol=1e-4)


def test_speculation_changes_no_token_however_good_the_draft(
    models: reference.Pair, no_skill: reference.Pair
) -> None:
    for prompt in handful(4):
        wanted = reference.greedy(models, prompt, 40)
        for steps in (1, 3, 5):
            assert reference.speculate(models, prompt, 40, steps).ids == wanted
        assert reference.speculate(no_skill, prompt, 40).ids == wanted


def test_walking_chains_over_finished_text_equals_running_them(models: reference.Pair) -> None:
    target, draft = models
    for prompt in handful(6):
        ran = reference.speculate(models, prompt, FIRST)
        ids = torch.tensor([prompt + reference.greedy(models, prompt, FIRST + CHAIN + 2)])
        emitted, verifies = accept_length(matches(draft, target, ids), len(prompt), FIRST)
        assert (emitted, verifies) == (sum(ran.accepted) + len(ran.accepted), len(ran.accepted))


def test_trained_draft_is_worth_it_on_all_held_out_prompts(models: reference.Pair) -> None:
    target, draft = models
    tokenizer = Tokenizer.from_file(str(pair.target_dir() / "tokenizer.json"))
    prompts = prompt_rows(pair.held_out_prompts(), tokenizer, PROMPT)
    ids = generate(target, prompts, FIRST + CHAIN + 2, torch.zeros(len(prompts)))
    emitted, verifies = accept_length(matches(draft, target, ids), PROMPT, FIRST)
    assert emitted / verifies >= 2.2


def test_untrained_draft_accepts_next_to_nothing(no_skill: reference.Pair) -> None:
    traces = [reference.speculate(no_skill, prompt, FIRST) for prompt in handful(6)]
    accepted = sum(sum(t.accepted) for t in traces)
    assert accepted / sum(len(t.accepted) for t in traces) < 0.05


def test_untrained_draft_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    files = {name: untrained.build(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))}
    content = {name: (d / "model.safetensors").read_bytes() for name, d in files.items()}
    assert content["a"] == content["b"] != content["c"]


def test_accept_length_is_unknown_without_a_verify_step() -> None:
    assert reference.Trace([1], []).accept_length is None
    assert reference.Trace([1, 2, 3, 4], [2, 0]).accept_length == 2.0
