"""The trained pair on the CPU platform, in float32: one text on every path, and drafts worth having."""

from __future__ import annotations

import pytest

from engine.harness import Engine, in_process
from specswitch.models import pair

pytestmark = pytest.mark.engine

PROMPTS, NEW_TOKENS = 8, 48
Result = list[tuple[list[int], int, int]]


def answers(path: str, options: dict) -> Result:
    """Output ids, accepted drafts and verifications of each held-out prompt."""
    engine = Engine(path, pair.target_dir(), pair.draft_dir(), **options)
    tokenizer = engine.scheduler.tokenizer
    prompts = [tokenizer.encode(text)[:200] for text in pair.held_out_prompts()[:PROMPTS]]
    outputs = engine.generate(prompts, {"max_new_tokens": NEW_TOKENS, "ignore_eos": True})
    return [(o.output_ids, o.meta["spec_num_correct_drafts"], o.meta["spec_verify_ct"]) for o in outputs]


def ids(result: Result) -> list[list[int]]:
    return [output for output, _, _ in result]


def accept_length(result: Result) -> float:
    return 1 + sum(accepted for _, accepted, _ in result) / sum(verified for _, _, verified in result)


def test_same_text_on_every_path_and_useful_drafts() -> None:
    plain = in_process(answers, "none", {})
    assert [len(output) for output in ids(plain)] == [NEW_TOKENS] * PROMPTS
    chain = in_process(answers, "v1", {})
    assert in_process(answers, "v2", {}) == chain
    tree = in_process(answers, "v1", {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8})
    assert ids(chain) == ids(plain)
    assert ids(tree) == ids(plain)
    assert accept_length(chain) > 1.4
    assert accept_length(tree) > accept_length(chain)
