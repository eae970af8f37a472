"""Top-k and top-p cuts against one row at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specswitch.engine.cpu.renorm import top_k_renorm_prob, top_p_renorm_prob

WHOLE_VOCABULARY = 1 << 30  # what the engine passes for "no top-k"


def rows(seed: int, count: int, size: int, temperature: float) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(count, size, generator=random) * temperature).softmax(1)


def cut(row: torch.Tensor, keep: list[int]) -> torch.Tensor:
    out = torch.zeros_like(row)
    out[keep] = row[keep]
    return out / out.sum()


@given(st.integers(0, 2**31), st.integers(2, 20), st.lists(st.integers(1, 25), min_size=1, max_size=4))
def test_top_k_keeps_the_k_likeliest(seed: int, size: int, top_k: list[int]) -> None:
    probs = rows(seed, len(top_k), size, 2.0)
    out = top_k_renorm_prob(probs, torch.tensor(top_k, dtype=torch.int32))
    for row, k, got in zip(probs, top_k, out, strict=True):
        likeliest = sorted(range(size), key=lambda i: -float(row[i]))[:k]
        torch.testing.assert_close(got, cut(row, likeliest))


@given(st.integers(0, 2**31), st.integers(2, 20), st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4))
def test_top_p_keeps_the_smallest_set_that_reaches_p(seed: int, size: int, top_p: list[float]) -> None:
    probs = rows(seed, len(top_p), size, 2.0)
    out = top_p_renorm_prob(probs, torch.tensor(top_p))
    for row, p, got in zip(probs, top_p, out, strict=True):
        kept: list[int] = []
        for i in sorted(range(size), key=lambda i: -float(row[i])):
            kept.append(i)
            if float(row[kept].sum()) >= p + 1e-6:
                break
        assert abs(float(row[kept[:-1]].sum()) - p) < 2e-6 or torch.allclose(got, cut(row, kept))


@pytest.mark.parametrize("top_k", [WHOLE_VOCABULARY, torch.tensor([WHOLE_VOCABULARY, 7])])
def test_a_top_k_beyond_the_vocabulary_changes_nothing(top_k: int | torch.Tensor) -> None:
    probs = rows(0, 2, 7, 1.0)
    assert top_k_renorm_prob(probs, top_k).equal(probs)


def test_top_k_and_top_p_may_differ_by_row() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2]]).expand(2, -1)
    torch.testing.assert_close(
        top_k_renorm_prob(probs, torch.tensor([1, WHOLE_VOCABULARY])),
        torch.tensor([[1, 0, 0], [0.5, 0.3, 0.2]]),
    )
    torch.testing.assert_close(
        top_p_renorm_prob(probs, torch.tensor([0.4, 1.0])), torch.tensor([[1, 0, 0], [0.5, 0.3, 0.2]])
    )


def test_equally_likely_tokens_at_the_edge_do_not_exceed_k() -> None:
    out = top_k_renorm_prob(torch.full((1, 4), 0.25), 2)
    assert out.tolist() == [[0.5, 0.5, 0.0, 0.0]]
