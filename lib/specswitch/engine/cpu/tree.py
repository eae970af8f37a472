"""Turning drafted candidates into the token tree that the target verifies.

Node 0 of each request is the bonus token (the root); nodes 1..N-1 are the selected draft tokens in ascending
order of their draft index. Draft index s < topk: child of the root; else level 2 + (s - topk) // topk², and
s // topk says where in `parent_list` the draft index of its parent stands.
"""

from __future__ import annotations

import torch

FULL_MASK, QLEN_ONLY = 0, 1  # sglang.srt.speculative.eagle_utils.TreeMaskMode


def build_tree_kernel_efficient(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill mask, positions and the first-child / next-sibling links of B trees of N = draft_token_num nodes.

    parent_list: [B, topk * (depth - 1) + 1] (or [B, 0] for depth 1); selected_index: [B, N - 1] int64 ascending;
    verified_seq_len: [B] int64. Filled in place: positions [B * N] int64; retrieve_index, retrieve_next_token,
    retrieve_next_sibling [B, N] int64, the latter two arriving as -1; tree_mask flat bool, per request
    [N, seq_len + N] (FULL_MASK, prefix columns arrive as True) or [N, N] (QLEN_ONLY).

    A node whose parent was not selected (an orphan; equal scores make that possible) keeps its position, is linked
    to nothing and sees only the root and itself, so it can never be accepted. Stands for
    `sgl_kernel.build_tree_kernel_efficient`. Raises NotImplementedError for bit-packed masks.
    """
    batch, nodes = len(verified_seq_len), draft_token_num
    retrieve_index.copy_(torch.arange(batch * nodes).view(batch, nodes))
    if topk == 1 and nodes == depth + 1:
        level = torch.arange(nodes)
        visible = level[:, None] >= level
        retrieve_next_token[:, :-1] = level[1:]
        positions.copy_((verified_seq_len[:, None] + level).flatten())
    else:
        parent, linked = _parents(parent_list, selected_index, topk)
        positions.view(batch, nodes).copy_(verified_seq_len[:, None] + _levels(selected_index, topk))
        _link(parent, linked, retrieve_next_token, retrieve_next_sibling)
        visible = _visibility(parent, linked, depth)
    _write_mask(tree_mask, visible.expand(batch, nodes, nodes), verified_seq_len, tree_mask_mode)


def _levels(selected_index: torch.Tensor, topk: int) -> torch.Tensor:
    """Distance of every node from the root, [B, N]."""
    deeper = 2 + (selected_index - topk).div(topk * topk, rounding_mode="floor")
    return torch.nn.functional.pad(torch.where(selected_index < topk, 1, deeper), (1, 0))


def _parents(
    parent_list: torch.Tensor, selected_index: torch.Tensor, topk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Parent node of nodes 1..N-1, [B, N-1], and whether it is in the tree at all (if not: root)."""
    entry = selected_index // topk
    under_root = entry == 0
    if parent_list.shape[1] == 0:
        return torch.zeros_like(selected_index), under_root
    parent_draft_index = parent_list.long().gather(1, entry)
    same = selected_index[:, None, :] == parent_draft_index[:, :, None]
    found = same.any(2)
    node = torch.where(found & ~under_root, same.int().argmax(2) + 1, 0)
    return node, under_root | found


def _link(
    parent: torch.Tensor, linked: torch.Tensor, next_token: torch.Tensor, next_sibling: torch.Tensor
) -> None:
    """Fill first-child and next-sibling links; children stand in ascending node order."""
    nodes = torch.arange(1, parent.shape[1] + 1)
    later = nodes[None, :] > nodes[:, None]
    brothers = (parent[:, :, None] == parent[:, None, :]) & linked[:, :, None] & linked[:, None, :] & later
    next_sibling[:, 1:] = torch.where(brothers.any(2), brothers.int().argmax(2) + 1, -1)
    every_node = torch.arange(parent.shape[1] + 1)
    children = (parent[:, None, :] == every_node[:, None]) & linked[:, None, :]
    next_token.copy_(torch.where(children.any(2), children.int().argmax(2) + 1, -1))


def _visibility(parent: torch.Tensor, linked: torch.Tensor, depth: int) -> torch.Tensor:
    """[B, N, N] bool: node q sees itself, its ancestors and the root."""
    batch, drafted = parent.shape
    visible = torch.eye(drafted + 1, dtype=torch.bool).repeat(batch, 1, 1)
    visible[:, :, 0] = True
    up = torch.nn.functional.pad(torch.where(linked, parent, 0), (1, 0))
    ancestor = up
    for _ in range(depth - 1):
        visible.scatter_(2, ancestor[:, :, None], True)
        ancestor = up.gather(1, ancestor)
    return visible


def _write_mask(
    tree_mask: torch.Tensor, visible: torch.Tensor, seq_lens: torch.Tensor, tree_mask_mode: int
) -> None:
    """Put the [B, N, N] visibility among tree nodes into the flat mask."""
    nodes = visible.shape[1]
    if tree_mask_mode == QLEN_ONLY:
        tree_mask[: visible.numel()] = visible.flatten()
        return
    if tree_mask_mode != FULL_MASK:
        raise NotImplementedError(
            f"tree_mask_mode={tree_mask_mode}: the CPU platform knows 0 (full) and 1 (tree only)"
        )
    width = seq_lens + nodes
    start = (width * nodes).cumsum(0) - width * nodes
    query = torch.arange(nodes)
    row_start = start[:, None] + query * width[:, None] + seq_lens[:, None]
    tree_mask[row_start[:, :, None] + query] = visible
