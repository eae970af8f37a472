"""Penalties, min_new_tokens and logit bias: plain steps equal the plain server exactly (field case A16)."""

from __future__ import annotations

import pytest

from engine.cpu.random_pair import EOS
from engine.features.arms import MODES, Client, Outcome, Pair, plain_server, prompt, run_modes

# These make the random model repeat itself: the penalties then decide which favourite comes next.
FAVOURITES = {str(token): 20.0 for token in range(100, 112)}
BANNED = set(range(0, 200, 2))
AT_LEAST = 20
ENDING = {"logit_bias": {str(EOS): 100.0}, "ignore_eos": False}
SETTINGS = {
    "frequency": {"frequency_penalty": 2.0, "logit_bias": FAVOURITES},
    "presence": {"presence_penalty": 2.0, "logit_bias": FAVOURITES},
    "repetition": {"repetition_penalty": 1.5, "logit_bias": FAVOURITES},
    "favoured": {"logit_bias": FAVOURITES},
    "banned": {"logit_bias": {str(token): -100.0 for token in BANNED}},
    "least": {"min_new_tokens": AT_LEAST} | ENDING,
    "free": {},
}


def workload(client: Client) -> None:
    """Requests with every setting, in batches of changing size, so that rows come and go around them."""
    for n, (name, params) in enumerate(SETTINGS.items()):
        for i in range(2):
            client.submit(
                f"{name}{i}",
                prompt(i, 12) * 2,
                {"max_new_tokens": 40 + 5 * i, "ignore_eos": True} | params,
                at=2 * n + i,
            )


@pytest.fixture(scope="module", params=["v1", "v2"])
def path(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain(path: str, pair: Pair) -> Outcome:
    """Without overlap for v1, as v1 itself runs: with it the engine counts every token one step late."""
    return plain_server(pair, workload, disable_overlap_schedule=path == "v1")


@pytest.fixture(scope="module")
def outcomes(path: str, pair: Pair) -> dict[str, Outcome]:
    return run_modes(path, pair, workload)


def test_plain_steps_give_the_plain_servers_tokens(outcomes: dict[str, Outcome], plain: Outcome) -> None:
    assert outcomes["off"].ids == plain.ids
    assert outcomes["off"].speculative_steps == 0


def test_the_penalties_change_the_plain_servers_tokens(plain: Outcome) -> None:
    for i in range(2):
        for name in ("frequency", "presence", "repetition"):
            assert plain.ids[f"{name}{i}"] != plain.ids[f"favoured{i}"]


@pytest.mark.parametrize("mode", MODES)
def test_logit_bias_is_the_same_in_every_mode(
    outcomes: dict[str, Outcome], plain: Outcome, mode: str
) -> None:
    answers = outcomes[mode].answers
    for i in range(2):
        assert not BANNED & set(answers[f"banned{i}"].ids)
        for name in ("favoured", "banned", "free"):
            assert answers[f"{name}{i}"].ids == plain.ids[f"{name}{i}"]


@pytest.mark.parametrize("mode", MODES)
def test_no_mode_ends_before_min_new_tokens(outcomes: dict[str, Outcome], plain: Outcome, mode: str) -> None:
    """Plain steps count tokens; speculative steps of this engine count steps, so they end later."""
    for i in range(2):
        assert len(plain.ids[f"least{i}"]) == AT_LEAST + 1
        ids = outcomes[mode].ids[f"least{i}"]
        assert len(ids) >= AT_LEAST + 1
        if mode == "off":
            assert ids == plain.ids[f"least{i}"]
