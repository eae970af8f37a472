"""Logprobs: one entry per output token in every mode, equal to the plain server's (field case A14)."""

from __future__ import annotations

import math

import pytest

from engine.features.arms import MODES, Answer, Client, Outcome, Pair, plain_server, prompt, run_modes

WANTED = [5, 77]


def workload(client: Client) -> None:
    """One request of a busy batch asks for logprobs; then three that also name tokens."""
    for i in range(5):
        more = {"return_logprob": True, "top_logprobs_num": 2} if i == 1 else {}
        client.submit(
            f"mixed{i}", prompt(i, 5 + 7 * i), {"max_new_tokens": 24, "ignore_eos": True}, 3 * i, **more
        )
    # This engine, the plain server too, cannot batch requests that name tokens with requests that do not.
    for i in range(3):
        client.submit(
            f"named{i}",
            prompt(10 + i, 9 + i),
            {"max_new_tokens": 20 + 5 * i, "ignore_eos": True},
            100 + i,
            return_logprob=True,
            top_logprobs_num=2,
            token_ids_logprob=WANTED,
        )


@pytest.fixture(scope="module")
def plain(pair: Pair) -> Outcome:
    return plain_server(pair, workload)


@pytest.fixture(scope="module", params=["v1", "v2"])
def outcomes(request: pytest.FixtureRequest, pair: Pair) -> dict[str, Outcome]:
    return run_modes(request.param, pair, workload)


def assert_same_logprobs(answer: Answer, reference: Answer) -> None:
    assert len(answer.logprobs) == len(answer.ids) == len(reference.logprobs)
    assert all(math.isfinite(p) and p <= 0 for p in answer.logprobs)
    assert answer.logprobs == pytest.approx(reference.logprobs, abs=1e-4)
    assert len(answer.top) == len(answer.ids)
    for own, theirs in zip(answer.top, reference.top, strict=True):
        assert [token for _, token in own] == [token for _, token in theirs]
        assert [p for p, _ in own] == pytest.approx([p for p, _ in theirs], abs=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_every_token_has_its_logprob_and_neighbours_have_none(
    outcomes: dict[str, Outcome], plain: Outcome, mode: str
) -> None:
    answers = outcomes[mode].answers
    assert outcomes[mode].ids == plain.ids
    asked = [name for name in answers if name == "mixed1" or name.startswith("named")]
    for name in asked:
        assert_same_logprobs(answers[name], plain.answers[name])
    assert all(not answers[name].logprobs for name in answers if name not in asked)


@pytest.mark.parametrize("mode", MODES)
def test_named_tokens_have_their_logprobs(outcomes: dict[str, Outcome], plain: Outcome, mode: str) -> None:
    for i in range(3):
        own, theirs = outcomes[mode].answers[f"named{i}"], plain.answers[f"named{i}"]
        assert [len(row) for row in own.chosen] == [len(WANTED)] * len(own.ids)
        for row, reference in zip(own.chosen, theirs.chosen, strict=True):
            assert row == pytest.approx(reference, abs=1e-4)


def test_the_modes_were_what_they_say(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["always"].plain_steps == 0
    assert outcomes["off"].speculative_steps == 0
    assert outcomes["flip"].switches > 20
    assert min(outcomes["flip"].plain_steps, outcomes["flip"].speculative_steps) > 10
