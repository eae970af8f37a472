"""Greedy verification against a walk down one tree at a time."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.cpu import trees
from specswitch.engine.cpu.verify_greedy import verify_tree_greedy_func

UNTOUCHED = -77


def slow_path(
    d: trees.Drafts, b: int, candidates: torch.Tensor, argmax: torch.Tensor, limit: int
) -> list[int]:
    path = [0]
    while len(path) <= limit:
        right = [n for n in trees.children_of(d, b, path[-1]) if candidates[b, n] == argmax[b, path[-1]]]
        if not right:
            break
        path.append(right[0])
    return path


@given(trees.drafts(), st.integers(0, 2**31), st.integers(1, 3))
def test_accepts_the_path_the_target_agrees_with(d: trees.Drafts, seed: int, vocabulary: int) -> None:
    random = torch.Generator().manual_seed(seed)
    batch = len(d.seq_lens)
    tree = trees.slow_tree(d)
    candidates = torch.randint(vocabulary, (batch, d.nodes), generator=random)
    argmax = torch.randint(vocabulary, (batch, d.nodes), generator=random)
    predicts = torch.full((batch * d.nodes + 1,), UNTOUCHED, dtype=torch.int32)
    accept_index = torch.full((batch, d.depth + 1), -1, dtype=torch.int32)
    accepted = torch.empty(batch, dtype=torch.int32)

    out = verify_tree_greedy_func(
        predicts,
        accept_index,
        accepted,
        candidates,
        tree.index,
        tree.next_token,
        tree.next_sibling,
        argmax,
        d.topk,
    )

    assert out[0] is predicts
    assert out[1] is accept_index
    assert out[2] is accepted
    wanted = torch.full_like(predicts, UNTOUCHED)
    for b in range(batch):
        path = slow_path(d, b, candidates, argmax, d.depth)
        rows = [b * d.nodes + n for n in path]
        assert accept_index[b].tolist() == rows + [-1] * (d.depth + 1 - len(rows))
        assert accepted[b] == len(path) - 1
        wanted[rows] = argmax[b, path].int()
    assert predicts.equal(wanted)
