"""Greedy verification: keep the drafts that are what the target would have said."""

from __future__ import annotations

import torch

from specswitch.engine.cpu.tree_walk import at, descend, record


def verify_tree_greedy_func(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
    topk: int = -1,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Accept the longest path from the root on which every token is the target's argmax at its parent.

    candidates, retrieve_*, target_predict: [B, N] int64; predicts [>= B * N], accept_index and accept_token_num
    int32, filled in place and returned. Rows of predicts that were not accepted stay as they are. Stands for
    `sglang.srt.speculative.eagle_utils.verify_tree_greedy_func`, which returns its inputs unfilled on a CPU.
    """
    batch, nodes = candidates.shape
    drafts = accept_index.shape[1] - 1
    if topk == 1 and nodes == drafts + 1:
        right = candidates[:, 1:] == target_predict[:, :-1]
        accepted = right.long().cumprod(1).sum(1)
        path = torch.arange(nodes).expand(batch, nodes)
    else:

        def is_argmax(node: torch.Tensor, child: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return at(candidates, child) == at(target_predict, node)

        path, accepted = descend(retrieve_next_token, retrieve_next_sibling, drafts, is_argmax)
    record(path, accepted, retrieve_index, accept_index, accept_token_num)
    rows = accept_index[accept_index >= 0].long()
    predicts[rows] = target_predict.flatten()[rows].to(predicts.dtype)
    return predicts, accept_index, accept_token_num
