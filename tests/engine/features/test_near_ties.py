"""The comparator for low precision: its synthetic cases, and a bfloat16 server judged with it (A25)."""

from __future__ import annotations

import functools

import pytest
import torch

from engine.children import in_process
from engine.cpu.random_pair import make_random_pair
from engine.features.arms import STRICT, Client, Pair, plain_server, prompt, run_modes
from engine.harness import Engine
from engine.near_ties import force
from specswitch.metrics.near_ties import NEAR, Verdict, compare, near_of

BF16_STEP = 0.125  # between neighbouring bfloat16 numbers from 16 to 32, where this model's best logits lie
SURE = [-0.01] * 6
PROMPTS = [prompt(i, 9 + i) for i in range(8)]


def test_equal_outputs_are_identical() -> None:
    verdict = compare([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], SURE, SURE)
    assert verdict == Verdict("identical", None, 0.0, 0)


def test_a_small_gap_is_a_near_tie_and_says_where_the_outputs_part() -> None:
    own = [-0.01, -0.01, -0.76, -0.01, -0.01, -0.01]
    best = [-0.01, -0.01, -0.70, -0.01, -0.01, -0.01]
    verdict = compare([1, 2, 9, 8, 7, 6], [1, 2, 3, 4, 5, 6], own, best)
    assert (verdict.kind, verdict.first_divergence, verdict.widest_at) == ("near-tie", 2, 2)
    assert verdict.widest_gap == pytest.approx(0.06)
    assert verdict.acceptable


def test_a_large_gap_is_a_difference_even_after_a_near_tie() -> None:
    own = [-0.01, -0.76, -0.01, -0.01, -1.6, -0.01]
    best = [-0.01, -0.70, -0.01, -0.01, -0.1, -0.01]
    verdict = compare([1, 9, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], own, best)
    assert (verdict.kind, verdict.first_divergence, verdict.widest_at) == ("different", 1, 4)
    assert not verdict.acceptable


@pytest.mark.parametrize(("produced", "reference"), [([1, 2, 3], [1, 2, 3, 4]), ([1, 2, 3, 4], [1, 2, 3])])
def test_an_output_that_ends_elsewhere_after_the_same_tokens_is_a_difference(
    produced: list[int], reference: list[int]
) -> None:
    sure = SURE[: len(produced)]
    verdict = compare(produced, reference, sure, sure)
    assert (verdict.kind, verdict.first_divergence) == ("different", 3)


def test_in_bfloat16_a_near_tie_is_a_few_steps_of_its_logits() -> None:
    assert near_of("float32") == near_of("float16") == NEAR
    assert 4 * BF16_STEP < near_of("bfloat16") == near_of("auto") < 1.0


def test_numbers_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ValueError, match="2 tokens, 3 logprobs"):
        compare([1, 2], [1, 2], SURE[:3], SURE[:3])
    with pytest.raises(ValueError, match="NaN"):
        compare([1], [1], [float("nan")], [0.0])


def judge(pair: Pair, dtype: str, near: float, outputs: list[list[list[int]]]) -> list[list[Verdict]]:
    """Verdicts on several runs' outputs of PROMPTS; the first run is the reference."""
    engine = Engine("none", pair[0], dtype=dtype)
    return [
        [
            compare(out, ref, *force(engine, p, out), near=near)
            for p, out, ref in zip(PROMPTS, run, outputs[0], strict=True)
        ]
        for run in outputs
    ]


def workload(client: Client) -> None:
    for i, ids in enumerate(PROMPTS):
        client.submit(f"p{i}", ids, {"max_new_tokens": 40, "ignore_eos": True}, at=3 * i)


def test_a_token_doubled_at_a_switch_is_found(pair: Pair) -> None:
    plain = plain_server(pair, workload)
    good = [plain.ids[f"p{i}"] for i in range(len(PROMPTS))]
    at = [next((k for k in range(15, 39) if out[k] != out[k + 1]), None) for out in good]
    bad = [
        out if k is None else [*out[: k + 1], out[k], *out[k + 1 : -1]]
        for out, k in zip(good, at, strict=True)
    ]
    own, doubled = in_process(functools.partial(judge, pair, "float32", NEAR, [good, bad]), env=STRICT)
    assert {v.kind for v in own} == {"identical"}
    assert sum(k is not None for k in at) > len(PROMPTS) / 2
    for verdict, k in zip(doubled, at, strict=True):
        if k is not None:  # else the output repeats one token, and doubling it changes nothing
            assert (verdict.kind, verdict.first_divergence) == ("different", k + 1)


@pytest.fixture(scope="module")
def bf16_pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_random_pair(tmp_path_factory.mktemp("bf16"), dtype=torch.bfloat16)


def test_in_bfloat16_outputs_part_at_near_ties_only(bf16_pair: Pair) -> None:
    runs = {"none": plain_server(bf16_pair, workload, dtype="bfloat16")}
    for path in ("v1", "v2"):
        modes = run_modes(path, bf16_pair, workload, dtype="bfloat16")
        runs |= {f"{path} {mode}": outcome for mode, outcome in modes.items()}
    outputs = [[run.ids[f"p{i}"] for i in range(len(PROMPTS))] for run in runs.values()]
    verdicts = in_process(functools.partial(judge, bf16_pair, "bfloat16", 2 * BF16_STEP, outputs), env=STRICT)
    for name, found in zip(runs, verdicts, strict=True):
        assert all(verdict.acceptable for verdict in found), (name, found)
