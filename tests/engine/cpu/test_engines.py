"""The stock scheduler and both stock EAGLE workers on the CPU platform: same text on every path, right acceptance."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats

from engine.cpu.eagle_reference import Reference
from engine.harness import Engine, in_process

pytestmark = pytest.mark.engine

Pair = tuple[Path, Path]
STRICT = {"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1"}
TREE = {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}


def prompts(count: int, low: int = 5, high: int = 60, seed: int = 0) -> list[list[int]]:
    source = random.Random(seed)
    return [[source.randrange(250) for _ in range(source.randrange(low, high))] for _ in range(count)]


def drip(pair: Pair, path: str, count: int, options: dict[str, Any], **params: Any) -> list[dict[str, Any]]:
    """Requests of different lengths arriving over 30 iterations; outputs and counts in order of submission."""
    engine = Engine(path, *pair, **options)
    source = random.Random(1)
    rids = [
        engine.submit(
            prompt,
            {"max_new_tokens": source.randrange(1, 60), "ignore_eos": True} | params,
            at_step=source.randrange(30),
        )
        for prompt in prompts(count)
    ]
    results = engine.run()
    worker = type(engine.worker).__name__
    return [{"ids": results[r].output_ids, "worker": worker, **results[r].meta} for r in rids]


def ids(results: list[dict[str, Any]]) -> list[list[int]]:
    return [r["ids"] for r in results]


@pytest.fixture(scope="module")
def plain(pair: Pair) -> list[dict[str, Any]]:
    """What the server without speculation says to 32 requests."""
    results = in_process(drip, pair, "none", 32, {}, env=STRICT)
    assert len(results) == 32
    assert all(r["worker"] == "TpModelWorker" and len(r["ids"]) > 0 for r in results)
    return results


@pytest.mark.parametrize(
    ("path", "options"),
    [
        pytest.param("none", {"page_size": 16}, id="none, pages of 16"),
        pytest.param("v1", {}, id="v1"),
        pytest.param("v1", {"page_size": 16}, id="v1, pages of 16"),
        pytest.param(
            "v1", {"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}, id="v1, one step"
        ),
        pytest.param("v1", TREE, id="v1, trees"),
        pytest.param(
            "v1", TREE | {"speculative_num_draft_tokens": 24, "speculative_num_steps": 5}, id="v1, big trees"
        ),
        pytest.param("v2", {}, id="v2"),
        pytest.param("v2", {"page_size": 16}, id="v2, pages of 16"),
        pytest.param(
            "v2", {"speculative_num_steps": 1, "speculative_num_draft_tokens": 2}, id="v2, one step"
        ),
    ],
)
def test_greedy_text_does_not_depend_on_the_path(
    pair: Pair, plain: list[dict[str, Any]], path: str, options: dict[str, Any]
) -> None:
    results = in_process(drip, pair, path, 32, options, env=STRICT)
    assert ids(results) == ids(plain)
    assert {r["worker"] for r in results} == {
        {"none": "TpModelWorker", "v1": "EAGLEWorker", "v2": "EAGLEWorkerV2"}[path]
    }
    if path != "none":
        drafted = sum(r["spec_verify_ct"] for r in results) * options.get("speculative_num_steps", 3)
        assert 0.1 < sum(r["spec_num_correct_drafts"] for r in results) / drafted < 0.9


@pytest.mark.parametrize("count", [1, 8])
def test_greedy_text_of_trees_at_other_concurrencies(
    pair: Pair, plain: list[dict[str, Any]], count: int
) -> None:
    assert ids(in_process(drip, pair, "v1", count, TREE, env=STRICT)) == ids(plain)[:count]


def counts(pair: Pair, path: str, count: int, new_tokens: int) -> list[tuple[list[int], int, int]]:
    engine = Engine(path, *pair)
    outputs = engine.generate(prompts(count, high=30), {"max_new_tokens": new_tokens, "ignore_eos": True})
    return [(o.output_ids, o.meta["spec_num_correct_drafts"], o.meta["spec_verify_ct"]) for o in outputs]


def test_text_and_acceptance_are_those_of_plain_torch(pair: Pair) -> None:
    """A wrong draft-side op would not change greedy text, but it would change how many drafts are accepted."""
    count, new_tokens = 3, 30
    with torch.inference_mode():
        reference = Reference.load(*pair)
        wanted = [reference.generate(prompt, new_tokens, steps=3) for prompt in prompts(count, high=30)]
    assert sum(accepted for _, accepted, _ in wanted) > 0
    assert in_process(counts, pair, "v1", count, new_tokens) == wanted
    assert in_process(counts, pair, "v2", count, new_tokens) == wanted


def retracting(pair: Pair, path: str) -> list[dict[str, Any]]:
    return drip(pair, path, 16, {})


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_retracted_requests_go_on_with_the_same_text(
    pair: Pair, plain: list[dict[str, Any]], path: str
) -> None:
    env = STRICT | {"SGLANG_TEST_RETRACT": "true", "SGLANG_TEST_RETRACT_INTERVAL": "7"}
    results = in_process(retracting, pair, path, env=env)
    assert sum(r["retraction_count"] for r in results) > 0
    assert ids(results) == ids(in_process(drip, pair, "none", 16, {}))


def to_the_limit(pair: Pair, path: str, options: dict[str, Any]) -> list[tuple[list[int], Any]]:
    engine = Engine(path, *pair, **options)
    outputs = engine.generate(prompts(2, 985, 995), {"max_new_tokens": 500, "ignore_eos": True})
    return [(o.output_ids, o.finish_reason) for o in outputs]


def test_drafting_past_the_context_limit_is_harmless(pair: Pair) -> None:
    wanted = in_process(to_the_limit, pair, "none", {})
    assert all(20 < len(output) < 40 for output, _ in wanted)
    for path, options in (("v1", TREE), ("v2", {"page_size": 16})):
        assert in_process(to_the_limit, pair, path, options) == wanted


DIGITS = r"[0-9]{3}-[a-f]{2,9};"


def constrained(pair: Pair, path: str, options: dict[str, Any]) -> tuple[list[list[int]], list[list[int]]]:
    """Three requests with a grammar, and two without beside them."""
    engine = Engine(path, *pair, **options)
    some = prompts(5)
    with_grammar = [engine.submit(p, {"max_new_tokens": 40, "regex": DIGITS}) for p in some[:3]]
    without = [engine.submit(p, {"max_new_tokens": 20, "ignore_eos": True}) for p in some[3:]]
    results = engine.run()
    return [results[r].output_ids for r in with_grammar], [results[r].output_ids for r in without]


def test_grammars_constrain_every_path_alike(pair: Pair) -> None:
    wanted = in_process(constrained, pair, "none", {})
    for text in wanted[0]:
        assert text[-1] == 257  # end of sequence, which the grammar allows only at its end
        printable = [chr(ord("!") + token) if token < 94 else "?" for token in text[:-1]]
        assert re.fullmatch(DIGITS, "".join(printable))
    for path, options in (("v1", {}), ("v1", TREE), ("v2", {})):
        assert in_process(constrained, pair, path, options) == wanted


PROMPT = list(range(40, 60))
SAMPLES = 3000


def sampled(pair: Pair, path: str, options: dict[str, Any]) -> tuple[dict[tuple[int, ...], int], int]:
    engine = Engine(path, *pair, **options)
    outputs = engine.generate(
        [PROMPT] * SAMPLES, {"max_new_tokens": 3, "temperature": 1.5, "top_k": 3, "ignore_eos": True}
    )
    accepted = sum(o.meta["spec_num_correct_drafts"] for o in outputs)
    return Counter(tuple(o.output_ids) for o in outputs), accepted


def exact_distribution(pair: Pair) -> dict[tuple[int, ...], float]:
    """Probabilities of all three-token continuations at temperature 1.5, top-k 3."""
    reference = Reference.load(*pair)

    def next_tokens(tokens: list[int]) -> dict[int, float]:
        top = (reference.target_logits(tokens)[-1] / 1.5).softmax(-1).topk(3)
        return dict(zip(top.indices.tolist(), (top.values / top.values.sum()).tolist(), strict=True))

    out: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(3):
        out = {
            (*text, token): p * q
            for text, p in out.items()
            for token, q in next_tokens(PROMPT + list(text)).items()
        }
    return out


@pytest.mark.parametrize(
    ("path", "options"), [("v1", {}), ("v1", TREE), ("v2", {})], ids=["v1", "v1 trees", "v2"]
)
def test_sampled_text_follows_the_targets_distribution(
    pair: Pair, path: str, options: dict[str, Any]
) -> None:
    with torch.inference_mode():
        exact = exact_distribution(pair)
    seen, accepted = in_process(sampled, pair, path, options)
    assert sum(seen.values()) == SAMPLES
    assert accepted > 0
    assert set(seen) <= set(exact)
    frequent = [text for text, p in exact.items() if p * SAMPLES >= 5]
    observed = [seen.get(text, 0) for text in frequent]
    expected = [exact[text] * SAMPLES for text in frequent]
    assert (
        stats.chisquare(
            [*observed, SAMPLES - sum(observed)], [*expected, SAMPLES - sum(expected)], sum_check=False
        ).pvalue
        > 1e-3
    )
