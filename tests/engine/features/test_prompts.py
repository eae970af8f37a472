"""Prompts in chunks, prompts from the cache, prompts at the context limit (field cases A18, A20)."""

from __future__ import annotations

import pytest

from engine.features.arms import MODES, Client, Outcome, Pair, plain_server, prompt, run_modes

CHUNK = 64
CONTEXT = 256
NEAR = (CONTEXT - 12, CONTEXT - 7, CONTEXT - 4, CONTEXT - 3, CONTEXT - 2, CONTEXT - 1)
BATCHES = [*MODES, "crossing"]


def chunked(client: Client) -> None:
    """Prompts of up to nine chunks, arriving while others decode; some share their beginning."""
    for i, length in enumerate((500, 23, 24, 25, 129, 300)):
        client.submit(f"long{i}", prompt(i % 3, 40) + prompt(i, length), _tokens(20 + 3 * i), at=3 * i)


def at_the_limit(client: Client) -> None:
    for i, length in enumerate(NEAR):
        client.submit(f"near{length}", prompt(i, length), _tokens(64), at=i)
    client.submit("short", prompt(9, 100), _tokens(CONTEXT))


def _tokens(count: int) -> dict:
    return {"max_new_tokens": count, "ignore_eos": True}


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("path", ["v1", "v2"])
def test_prompts_in_chunks_give_the_plain_servers_tokens(pair: Pair, path: str, page_size: int) -> None:
    options = {"chunked_prefill_size": CHUNK, "page_size": page_size}
    plain = plain_server(pair, chunked, **options)
    outcomes = run_modes(path, pair, chunked, BATCHES, **options)
    for outcome in outcomes.values():
        assert outcome.ids == plain.ids
    assert outcomes["crossing"].switches >= 2


@pytest.fixture(scope="module")
def plain_at_the_limit(pair: Pair) -> Outcome:
    return plain_server(pair, at_the_limit, context_length=CONTEXT)


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_at_the_context_limit_every_mode_makes_the_allowed_tokens(
    pair: Pair, path: str, plain_at_the_limit: Outcome
) -> None:
    outcomes = run_modes(path, pair, at_the_limit, BATCHES, context_length=CONTEXT)
    expected = results(plain_at_the_limit)
    for outcome in outcomes.values():
        assert results(outcome) == expected
    counts = [len(expected[f"near{length}"][0]) for length in NEAR]
    assert counts == sorted(set(counts) - {0}, reverse=True) + [0] * counts.count(0), "fewer the nearer"
    assert [expected[f"near{length}"][1] for length in NEAR] == ["length" if n else "abort" for n in counts]
    assert len(expected["short"][0]) > CONTEXT - 110


def results(outcome: Outcome) -> dict[str, tuple[list[int], str]]:
    """Tokens and finish reason; a refused prompt gets one meaningless token."""
    return {n: ([] if a.reason == "abort" else a.ids, a.reason) for n, a in outcome.answers.items()}
