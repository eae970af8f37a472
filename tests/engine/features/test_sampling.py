"""Temperature, top-p, top-k and min-p in plain and in speculative steps (field case A17).

The engine's own logprobs say what each token's distribution was (that they are right is tested beside this), so
the place of the sampled token in its cumulative distribution must be uniform, in every mode and position.
"""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from scipy import stats

from engine.cpu.random_pair import VOCAB
from engine.features.arms import MODES, Answer, Client, Outcome, Pair, plain_server, prompt, run_modes

HOT = {"temperature": 6.0, "ignore_eos": True, "max_new_tokens": 24}
TOP_K, TOP_P, MIN_P = 5, 0.6, 0.1
SETTINGS = {"hot": {}, "top_k": {"top_k": TOP_K}, "top_p": {"top_p": TOP_P}, "min_p": {"min_p": MIN_P}}
EACH = 30
SEEDS = 64


def workload(client: Client) -> None:
    for i in range(6):
        client.submit(f"greedy{i}", prompt(i, 10), {"max_new_tokens": 40, "ignore_eos": True}, at=3 * i)
    for name, params in SETTINGS.items():
        for i in range(EACH):
            client.submit(
                f"{name}{i}", prompt(i, 8), HOT | params, at=i, return_logprob=True, top_logprobs_num=VOCAB
            )


def one_prompt(client: Client) -> None:
    for i in range(SEEDS):
        client.submit(f"seed{i}", prompt(1, 10), HOT | {"top_k": 4, "max_new_tokens": 16})


@pytest.fixture(scope="module")
def plain(pair: Pair) -> Outcome:
    return plain_server(pair, workload)


@pytest.fixture(scope="module", params=["v1", "v2"])
def path(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def outcomes(path: str, pair: Pair) -> dict[str, Outcome]:
    return run_modes(path, pair, workload)


def kept(row: list[tuple[float, int]], setting: str) -> list[tuple[float, int]]:
    """(probability, token), most probable first, that the setting leaves, renormalised."""
    probs = [(math.exp(logprob), token) for logprob, token in row]
    if setting == "top_k":
        probs = probs[:TOP_K]
    if setting == "top_p":
        before = [sum(p for p, _ in probs[:i]) for i in range(len(probs))]
        probs = [entry for entry, above in zip(probs, before, strict=True) if above <= TOP_P + 1e-6]
    if setting == "min_p":
        probs = [(p, token) for p, token in probs if p >= MIN_P * probs[0][0] - 1e-6]
    total = sum(p for p, _ in probs)
    return [(p / total, token) for p, token in probs]


def places(answer: Answer, setting: str, rng: random.Random) -> list[float]:
    """Where each token fell in its cumulative distribution, spread evenly over its own share."""
    found = []
    for token, row in zip(answer.ids, answer.top, strict=True):
        left = kept(row, setting)
        at = [t for _, t in left].index(token)  # ValueError: a token that the setting excludes
        found.append(sum(p for p, _ in left[:at]) + rng.random() * left[at][0])
    return found


def uniformity(outcome: Outcome, name: str, setting: str) -> float:
    """p value of the hypothesis that the requests called `name` were sampled under `setting`."""
    rng = random.Random(7)
    answers = [a for key, a in outcome.answers.items() if key.startswith(name)]
    # The first token of a request is the prefill's.
    found = [u for a in answers for u in places(a, setting, rng)[1:]]
    assert len(found) == EACH * (HOT["max_new_tokens"] - 1)
    return stats.kstest(found, "uniform").pvalue


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("setting", ["hot", "top_k", "top_p"])
def test_tokens_follow_their_distribution(outcomes: dict[str, Outcome], mode: str, setting: str) -> None:
    assert uniformity(outcomes[mode], setting, setting) > 0.001


def test_min_p_holds_in_plain_steps_and_is_ignored_in_speculative_ones(outcomes: dict[str, Outcome]) -> None:
    """Documented: this engine's verify does not know min-p."""
    assert uniformity(outcomes["off"], "min_p", "min_p") > 0.001
    assert uniformity(outcomes["always"], "min_p", "hot") > 0.001


def test_the_hypothesis_is_refused_for_another_setting(outcomes: dict[str, Outcome]) -> None:
    """Control: the same tokens do not pass for those of the unrestricted distribution."""
    for setting in ("top_k", "top_p"):
        assert uniformity(outcomes["off"], setting, "hot") < 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_greedy_rows_of_a_mixed_batch_are_unaffected(
    outcomes: dict[str, Outcome], plain: Outcome, mode: str
) -> None:
    for i in range(6):
        assert outcomes[mode].ids[f"greedy{i}"] == plain.ids[f"greedy{i}"]


def test_drafts_are_accepted_at_this_temperature(outcomes: dict[str, Outcome]) -> None:
    hot = [a for name, a in outcomes["always"].answers.items() if name.startswith("hot")]
    assert sum(a.accepted for a in hot) > 20, "else the verify's acceptance was not tested"


def test_one_prompt_gives_as_many_outputs_on_as_off(path: str, pair: Pair) -> None:
    runs = run_modes(path, pair, one_prompt)
    distinct = {mode: len({tuple(ids) for ids in run.ids.values()}) for mode, run in runs.items()}
    assert distinct["off"] > SEEDS / 2
    assert all(abs(n - distinct["off"]) <= 0.2 * distinct["off"] for n in distinct.values())
    second = {mode: Counter(ids[1] for ids in run.ids.values()) for mode, run in runs.items()}
    tokens = sorted(set().union(*second.values()))
    for mode in ("always", "flip"):
        table = [[second[m][t] + 0.5 for t in tokens] for m in ("off", mode)]
        assert stats.chi2_contingency(table).pvalue > 0.001
