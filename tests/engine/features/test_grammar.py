"""Constrained requests whose mode changes in the middle of the object (field case A15)."""

from __future__ import annotations

import json
import re

import pytest

from engine.features.arms import MODES, Client, Outcome, Pair, plain_server, prompt, run_modes

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 99999},
        "b": {"enum": ["x", "y"]},
        "c": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    },
    "required": ["a", "b", "c"],
    "additionalProperties": False,
}
REGEX = r"id-[0-9a-f]{12}(, id-[0-9a-f]{12}){2}"
THRESHOLD = 4


def workload(client: Client) -> None:
    """Eight objects, four regexes and four free requests, arriving so that the batch crosses the threshold."""
    for i in range(8):
        params = {"json_schema": json.dumps(SCHEMA), "max_new_tokens": 120}
        client.submit(f"object{i}", prompt(i, 6 + i), params, at=4 * i)
    for i in range(4):
        client.submit(f"regex{i}", prompt(20 + i, 9), {"regex": REGEX, "max_new_tokens": 120}, at=9 * i)
        client.submit(f"free{i}", prompt(30 + i, 9), {"max_new_tokens": 40, "ignore_eos": True}, at=6 * i)


@pytest.fixture(scope="module")
def plain(pair: Pair) -> Outcome:
    return plain_server(pair, workload, constrained_json_disable_any_whitespace=True)


@pytest.fixture(scope="module", params=["v1", "v2"])
def outcomes(request: pytest.FixtureRequest, pair: Pair) -> dict[str, Outcome]:
    modes = [*MODES, "crossing"]
    return run_modes(request.param, pair, workload, modes, constrained_json_disable_any_whitespace=True)


@pytest.mark.parametrize("mode", [*MODES, "crossing"])
def test_outputs_obey_their_grammar_and_equal_the_plain_servers(
    outcomes: dict[str, Outcome], plain: Outcome, mode: str
) -> None:
    outcome = outcomes[mode]
    for name, answer in outcome.answers.items():
        assert (answer.ids, answer.reason) == (plain.ids[name], plain.answers[name].reason)
        text = answer.text.removesuffix("</s>")
        if name.startswith("object"):
            value = json.loads(text)
            assert answer.reason == "stop"
            assert set(value) == {"a", "b", "c"}
            assert value["b"] in ("x", "y")
        if name.startswith("regex"):
            assert answer.reason == "stop"
            assert re.fullmatch(REGEX, text)


def test_the_mode_changes_inside_objects(outcomes: dict[str, Outcome]) -> None:
    assert outcomes["flip"].switches > 20
    assert outcomes["crossing"].switches >= 2
    assert min(outcomes["crossing"].plain_steps, outcomes["crossing"].speculative_steps) > 5


def impossible(client: Client) -> None:
    """The expression ends after three digits, and the end mark is forbidden until fifty tokens."""
    client.submit("impossible", prompt(1, 5), {"regex": "[0-9]{3}", "min_new_tokens": 50})
    client.submit("neighbour", prompt(2, 5), {"max_new_tokens": 30, "ignore_eos": True})


@pytest.mark.parametrize(("path", "modes"), [("v1", ["off"]), ("v2", MODES)])
def test_a_refused_token_ends_its_own_request_only(pair: Pair, path: str, modes: list[str]) -> None:
    """In a speculative step of v1 the stock engine itself does not survive this."""
    plain = plain_server(pair, impossible)
    assert plain.answers["impossible"].reason == "abort"
    for outcome in run_modes(path, pair, impossible, modes).values():
        assert outcome.answers["impossible"].reason == "abort"
        assert outcome.ids == plain.ids
