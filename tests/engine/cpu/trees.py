"""Random drafts and the slow, obvious way to make a token tree of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from hypothesis import strategies as st


@dataclass
class Drafts:
    """What the drafting loop hands over for a batch: selected draft indices and the table of parents."""

    topk: int
    depth: int
    nodes: int
    selected: torch.Tensor  # [B, nodes - 1], ascending
    parent_list: torch.Tensor  # [B, topk * (depth - 1) + 1] or [B, 0]
    seq_lens: torch.Tensor  # [B]


@st.composite
def drafts(draw: st.DrawFn, max_batch: int = 4) -> Drafts:
    """Drafts as the loop makes them, except that any subset may be selected, so parents may be missing."""
    topk = draw(st.integers(1, 4))
    depth = draw(st.integers(1, 4))
    drafted = topk + (depth - 1) * topk * topk
    nodes = depth + 1 if topk == 1 and draw(st.booleans()) else draw(st.integers(2, min(drafted, 12) + 1))
    batch = draw(st.integers(1, max_batch))
    seed = draw(st.integers(0, 2**31))
    random = torch.Generator().manual_seed(seed)
    selected = torch.stack(
        [torch.randperm(drafted, generator=random)[: nodes - 1].sort().values for _ in range(batch)]
    )
    if depth == 1:
        parent_list = torch.empty(batch, 0)
    else:
        # Level 0: -1 and the topk first tokens; level i: the topk tokens that were expanded next.
        rows = []
        for _ in range(batch):
            row = [torch.arange(-1, topk)]
            for level in range(1, depth - 1):
                candidates = torch.randperm(topk * topk, generator=random)[:topk]
                row.append(candidates + topk * topk * (level - 1) + topk)
            rows.append(torch.cat(row))
        parent_list = torch.stack(rows)
    seq_lens = torch.randint(1, 9, (batch,), generator=random)
    return Drafts(topk, depth, nodes, selected, parent_list, seq_lens)


def parent_of(d: Drafts, request: int, node: int) -> int | None:
    """Parent node of a node, None if it was not selected."""
    selected = d.selected[request].tolist()
    index = selected[node - 1]
    if index < d.topk:
        return 0
    parent_index = int(d.parent_list[request, index // d.topk])
    return selected.index(parent_index) + 1 if parent_index in selected else None


def ancestors_of(d: Drafts, request: int, node: int) -> list[int]:
    """Nodes above a node as far as they were selected, and always the root."""
    above = []
    while node != 0:
        parent = parent_of(d, request, node)
        if parent is None:
            break
        above.append(parent)
        node = parent
    return sorted({*above, 0})


def children_of(d: Drafts, request: int, node: int) -> list[int]:
    """Children of a node in ascending order."""
    return [n for n in range(1, d.nodes) if parent_of(d, request, n) == node]


def level_of(d: Drafts, index: int) -> int:
    """Drafting step in which a draft index was made, counted from 1."""
    return 1 if index < d.topk else 2 + (index - d.topk) // d.topk**2


@dataclass
class Tree:
    """A built tree, batch-wise, as the verification wants it."""

    index: torch.Tensor
    next_token: torch.Tensor
    next_sibling: torch.Tensor


def slow_tree(d: Drafts) -> Tree:
    """First-child / next-sibling links, one node after the other."""
    batch = len(d.seq_lens)
    next_token = torch.full((batch, d.nodes), -1)
    next_sibling = torch.full((batch, d.nodes), -1)
    for b in range(batch):
        for node in range(d.nodes):
            children = children_of(d, b, node)
            for left, right in pairwise(children):
                next_sibling[b, left] = right
            if children:
                next_token[b, node] = children[0]
    return Tree(torch.arange(batch * d.nodes).view(batch, d.nodes), next_token, next_sibling)
