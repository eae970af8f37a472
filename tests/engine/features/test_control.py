"""Reading and changing the rule between two steps of a running scheduler."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from engine.children import in_process
from engine.features.arms import STRICT, Client, Pair, plain_server, prompt, run_modes, set_rule
from engine.harness import Engine

CONTRACT = {  # design, section 5: what /server_info tells
    *("version", "path", "worker_class", "threshold", "enable_threshold", "dwell", "sync", "mode"),
    *("running_batch", "plain_steps", "speculative_steps", "switches", "proposed", "accepted"),
    *("synced_tokens", "accept_length"),
}
REFUSED = [
    {"threshold": -1},
    {"threshold": 2.5},
    {"threshold": True},
    {"threshold": "4"},
    {"enable_threshold": 9},
    {"threshold": 2, "enable_threshold": 3},
    {"threshold": None, "enable_threshold": 3},
    {"dwell": 0},
    {"sync": "sometimes"},
    {"sync": None},
    {"threshold": 1, "sync": "sometimes"},
    {"ranges": []},
    {"ranges": [[4, 2]]},
    {"treshold": 4},
    [["threshold", 4]],
    "off",
]


def engine_of(path: str, pair: Pair, threshold: int = 4) -> Engine:
    return Engine(path, *pair, speculative_disable_batch_threshold=threshold, specswitch_check=True)


def state_of(engine: Engine) -> dict[str, Any]:
    """As GET /server_info asks for it."""
    from sglang.srt.managers.io_struct import GetInternalStateReq

    engine.send(GetInternalStateReq())
    engine.step()
    (answer,) = [m for m in engine.outbox if type(m).__name__ == "GetInternalStateReqOutput"][-1:]
    return answer.internal_state["specswitch"]


def answers_to_changes(engine: Engine) -> list[tuple[bool, Any]]:
    found = [m for m in engine.outbox if type(m).__name__ == "SetInternalStateReqOutput"]
    return [(m.updated, m.server_args) for m in found]


def effect_scenario(path: str, pair: Pair) -> dict[str, Any]:
    """Six long requests; the threshold moves under them; the mode of every step after each change."""
    engine = engine_of(path, pair, threshold=8)
    rids = [
        engine.submit(prompt(i, 8), {"max_new_tokens": 200, "ignore_eos": True}, rid=f"r{i}")
        for i in range(6)
    ]
    engine.step(10)
    seen: dict[str, Any] = {"modes": []}
    for changes in ({"threshold": 2}, {"threshold": 6}, {"threshold": 0}, {"threshold": None}):
        set_rule(engine, **changes)
        steps = []
        for _ in range(6):
            engine.step()
            steps.append(engine.worker.switch.mode.value)
        seen["modes"].append((changes["threshold"], steps))
    seen["records"] = [(info.mode.value, info.switched) for _, info in engine.decode_steps]
    results = engine.run()
    seen["ids"] = {rid: results[rid].output_ids for rid in rids}
    return seen


def long_requests(client: Client) -> None:
    for i in range(6):
        client.submit(f"r{i}", prompt(i, 8), {"max_new_tokens": 200, "ignore_eos": True})


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_a_new_threshold_takes_effect_within_two_steps_and_disturbs_nobody(path: str, pair: Pair) -> None:
    seen = in_process(functools.partial(effect_scenario, path, pair), env=STRICT)
    for threshold, modes in seen["modes"]:
        wanted = "speculative" if threshold is None or threshold >= 6 else "plain"
        assert modes[1:] == [wanted] * 5, (threshold, modes)
    # In the records: each change of mode is marked on the step that had the new mode first.
    marked = [i for i, (_, switched) in enumerate(seen["records"]) if switched]
    changed = [
        i
        for i, (a, b) in enumerate(zip(seen["records"], seen["records"][1:], strict=False), 1)
        if a[0] != b[0]
    ]
    assert marked == changed
    assert len(marked) == 4
    assert seen["ids"] == plain_server(pair, long_requests).ids


def refusal_scenario(path: str, pair: Pair) -> dict[str, Any]:
    engine = engine_of(path, pair)
    before, reasons = state_of(engine), []
    for changes in REFUSED:
        from sglang.srt.managers.io_struct import SetInternalStateReq

        engine.send(SetInternalStateReq(server_args={"specswitch": changes}))
        engine.step()
        reasons.append(state_of(engine)["last_refusal"])
    engine.send(SetInternalStateReq(server_args={"specswitch": {"threshold": 1}, "dwell": 3}))
    refused = state_of(engine)
    set_rule(engine, threshold=5, enable_threshold=3, dwell=2, sync="eager")
    return {
        "before": before,
        "refused": refused,
        "reasons": reasons,
        "after": state_of(engine),
        "answers": answers_to_changes(engine),
        "idle": engine.flush(),
    }


@pytest.fixture(scope="module", params=["v1", "v2"])
def refusals(request: pytest.FixtureRequest, pair: Pair) -> dict[str, Any]:
    return in_process(functools.partial(refusal_scenario, request.param, pair), env=STRICT)


RULE = ("threshold", "enable_threshold", "dwell", "ranges", "sync", "mode", "switches")


def test_refused_changes_change_nothing_and_say_why(refusals: dict[str, Any]) -> None:
    assert [refusals["before"][k] for k in RULE] == [refusals["refused"][k] for k in RULE]
    *refused, accepted = refusals["answers"]
    assert [updated for updated, _ in refused] == [False] * (len(REFUSED) + 1)
    assert accepted == (True, {"error": None})
    for changes, reason in zip(REFUSED, refusals["reasons"], strict=True):
        assert reason, f"{changes}: no reason"
    assert "alone" in refusals["refused"]["last_refusal"]


def test_accepted_changes_are_seen_and_clear_the_refusal(refusals: dict[str, Any]) -> None:
    after = refusals["after"]
    assert [after[k] for k in RULE[:5]] == [5, 3, 2, None, "eager"]
    assert after["last_refusal"] is None


def test_the_state_has_every_key_of_the_contract(refusals: dict[str, Any]) -> None:
    state = refusals["before"]
    assert set(state) >= CONTRACT
    assert state["accept_length"] is None, "nothing was verified yet"
    assert (state["threshold"], state["dwell"], state["sync"], state["mode"]) == (4, 1, "lazy", "speculative")


SYNCS = ("eager", "lazy", "stale", "lazy", "eager", "stale", "eager", "lazy")


def changing_syncs(client: Client) -> None:
    """The sync rule and the mode change again and again under requests that have tokens pending."""
    for i in range(8):
        client.submit(f"r{i}", prompt(i, 8), {"max_new_tokens": 90, "ignore_eos": True}, at=2 * i)
    if client.mode != "none":
        for i in range(40):
            changes = {"sync": SYNCS[i % 8], "threshold": (0, None, 3)[i % 3], "dwell": 1 + i % 2}
            set_rule(client.engine, client.start + 5 + 3 * i, **changes)


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_changing_every_part_of_the_rule_keeps_the_outputs(path: str, pair: Pair) -> None:
    plain = plain_server(pair, changing_syncs)
    outcome = run_modes(path, pair, changing_syncs, ["off"])["off"]
    assert outcome.ids == plain.ids
    assert outcome.switches > 8


def stock_scenario(pair: Pair) -> tuple[bool, Any]:
    engine = Engine("v2", *pair)
    set_rule(engine, threshold=4)
    engine.step(2)
    return answers_to_changes(engine)[0]


def test_a_stock_worker_has_no_rule_to_change(pair: Pair) -> None:
    updated, answer = in_process(functools.partial(stock_scenario, pair))
    assert not updated
    assert "stock EAGLEWorkerV2" in answer["error"]
