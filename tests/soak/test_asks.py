"""Requests of a soak: random, but fixed by seed and number."""

from __future__ import annotations

import pytest

from load.support import NumberedPrompts
from specswitch.soak.asks import Asks, Mix

MIX = Mix(longest_prompt=8, longest_output=16)


def test_a_request_is_fixed_by_seed_and_number():
    once, again = (Asks(NumberedPrompts(), MIX, seed=3) for _ in range(2))
    assert [once[n] for n in range(50)] == [again[n] for n in reversed(range(50))][::-1]
    assert [once[n] for n in range(50)] != [Asks(NumberedPrompts(), MIX, seed=4)[n] for n in range(50)]


def test_lengths_reach_from_one_token_to_the_longest():
    asks = [Asks(NumberedPrompts(), MIX, seed=1)[n] for n in range(500)]
    assert {len(a.input_ids) for a in asks} == set(range(1, 9))
    assert {a.output_tokens for a in asks} == set(range(1, 17))
    assert all(a.input_ids == NumberedPrompts()[a.number][: len(a.input_ids)] for a in asks)


def test_shares_are_those_of_the_mix_and_only_greedy_outputs_are_compared():
    asks = [Asks(NumberedPrompts(), MIX, seed=1)[n] for n in range(4000)]
    greedy = [a for a in asks if a.temperature == 0]
    assert len(greedy) / 4000 == pytest.approx(0.8, abs=0.03)
    assert sum(a.abort is not None for a in asks) / 4000 == pytest.approx(0.05, abs=0.015)
    assert {a.abort for a in asks} == {None, "hang-up", "abort"}
    assert sum(a.compared for a in greedy) / len(greedy) == pytest.approx(0.05, abs=0.015)
    assert all(a.temperature == 0 for a in asks if a.compared)
    assert any(not a.ignore_eos for a in asks)
