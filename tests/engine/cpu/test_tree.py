"""Building the token tree against an obvious reference, orphans included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from engine.cpu import trees
from specswitch.engine.cpu.tree import FULL_MASK, QLEN_ONLY, build_tree_kernel_efficient


def build(d: trees.Drafts, mode: int = FULL_MASK) -> tuple[trees.Tree, torch.Tensor, torch.Tensor]:
    batch = len(d.seq_lens)
    links = torch.full((3, batch, d.nodes), -1)
    widths = d.seq_lens + d.nodes if mode == FULL_MASK else torch.full_like(d.seq_lens, d.nodes)
    mask = torch.ones(int(widths.sum()) * d.nodes, dtype=torch.bool)
    positions = torch.full((batch * d.nodes,), -7)
    build_tree_kernel_efficient(
        d.parent_list, d.selected, d.seq_lens, mask, positions, *links, d.topk, d.depth, d.nodes, mode
    )
    return trees.Tree(*links), positions.view(batch, d.nodes), mask


@given(trees.drafts())
def test_links_are_first_child_and_next_sibling_in_ascending_order(d: trees.Drafts) -> None:
    built, _, _ = build(d)
    wanted = trees.slow_tree(d)
    assert built.index.equal(wanted.index)
    assert built.next_token.equal(wanted.next_token)
    assert built.next_sibling.equal(wanted.next_sibling)


@given(trees.drafts())
def test_positions_count_on_from_the_sequence_by_drafting_step(d: trees.Drafts) -> None:
    _, positions, _ = build(d)
    for b, length in enumerate(d.seq_lens.tolist()):
        levels = [0] + [trees.level_of(d, i) for i in d.selected[b].tolist()]
        assert positions[b].tolist() == [length + level for level in levels]


@given(trees.drafts())
def test_full_mask_shows_the_prefix_the_ancestors_and_the_node_itself(d: trees.Drafts) -> None:
    _, _, mask = build(d)
    start = 0
    for b, length in enumerate(d.seq_lens.tolist()):
        width = length + d.nodes
        for node in range(d.nodes):
            row = mask[start : start + width].tolist()
            seen = {*trees.ancestors_of(d, b, node), node}
            assert row == [True] * length + [n in seen for n in range(d.nodes)]
            start += width
    assert start == len(mask)


@given(trees.drafts())
def test_tree_only_mask_is_the_full_mask_without_the_prefix(d: trees.Drafts) -> None:
    _, _, full = build(d)
    _, _, short = build(d, QLEN_ONLY)
    rows = full.split([int(n) + d.nodes for n in d.seq_lens for _ in range(d.nodes)])
    assert short.equal(torch.cat([row[-d.nodes :] for row in rows]))


def test_an_orphan_is_linked_to_nothing() -> None:
    # topk 2, depth 2: draft index 2 descends from index 0, which was not selected; index 1 was.
    d = trees.Drafts(2, 2, 3, torch.tensor([[1, 2]]), torch.tensor([[-1, 0, 1]]), torch.tensor([5]))
    built, positions, mask = build(d)
    assert built.next_token.tolist() == [[1, -1, -1]]
    assert built.next_sibling.tolist() == [[-1, -1, -1]]
    assert positions.tolist() == [[5, 6, 7]]
    assert mask.view(3, 8)[2].tolist() == [True] * 5 + [True, False, True]


def test_bit_packed_masks_are_refused() -> None:
    d = trees.Drafts(1, 1, 2, torch.tensor([[0]]), torch.empty(1, 0), torch.tensor([3]))
    with pytest.raises(NotImplementedError, match="tree_mask_mode=2"):
        build(d, mode=2)
