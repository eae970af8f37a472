"""What a request's meta_info says of its acceptance, across switches (field case A3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.features.arms import MODES, Client, Pair, prompt, run_modes

DRAFT_TOKENS = 4


def workload(client: Client) -> Any:
    """Long requests that live through a burst of short ones (F2); afterwards: every request's meta_info."""
    for i in range(3):
        client.submit(f"long{i}", prompt(i, 8), {"max_new_tokens": 120, "ignore_eos": True})
    for i in range(6):
        client.submit(f"short{i}", prompt(10 + i, 8), {"max_new_tokens": 16, "ignore_eos": True}, at=12)
    return _meta


def _meta(client: Client) -> dict[str, dict[str, Any]]:
    """Fed to the tokenizer manager's own function, which our hook surrounds."""
    from sglang.srt.managers.tokenizer_manager import TokenizerManager

    names = {rid: name for name, rid in client.rids.items()}
    manager = SimpleNamespace(server_args=client.engine.server_args)
    found = {}
    for message in client.engine.outbox:
        for i, rid in enumerate(getattr(message, "rids", None) or []):
            if rid in names and message.finished_reasons[i] is not None:
                meta: dict[str, Any] = {"completion_tokens": message.completion_tokens[i]}
                TokenizerManager._calculate_spec_decoding_metrics(manager, meta, message, i)
                found[names[rid]] = meta
    return found


@pytest.fixture(scope="module", params=["v1", "v2"])
def metas(request: pytest.FixtureRequest, pair: Pair) -> dict[str, dict[str, dict[str, Any]]]:
    outcomes = run_modes(request.param, pair, workload, [*MODES, "crossing"])
    assert outcomes["crossing"].switches >= 2
    return {mode: outcome.extra for mode, outcome in outcomes.items()}


@pytest.mark.parametrize("mode", ["always", "flip", "crossing"])
def test_accept_length_is_of_verify_steps_only(metas: dict[str, Any], mode: str) -> None:
    for name, meta in metas[mode].items():
        if mode == "crossing" and name.startswith("short"):
            continue
        assert 1 <= meta["spec_accept_length"] <= DRAFT_TOKENS
        verifies, correct = meta["spec_verify_ct"], meta["spec_num_correct_drafts"]
        histogram = meta["spec_correct_drafts_histogram"]
        assert sum(histogram) == verifies
        assert sum(i * n for i, n in enumerate(histogram)) == correct
        assert meta["spec_accept_length"] == pytest.approx((correct + verifies) / verifies)
        assert meta["spec_accept_rate"] == pytest.approx(correct / (verifies * (DRAFT_TOKENS - 1)))


def test_a_request_without_a_verify_has_no_accept_length(metas: dict[str, Any]) -> None:
    for meta in metas["off"].values():
        assert not any(key.startswith("spec_") for key in meta)


def test_plain_tokens_do_not_raise_the_accept_length(metas: dict[str, Any]) -> None:
    """Some tokens of a crossing request are plain; the stock formula counts them in."""
    for i in range(3):
        meta = metas["crossing"][f"long{i}"]
        stock = meta["completion_tokens"] / meta["spec_verify_ct"]
        assert meta["spec_accept_length"] < stock
