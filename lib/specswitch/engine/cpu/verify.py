"""Walking the token tree with the target's predictions: greedy and sampled verification.

Layout as in `tree`: B requests, N nodes, at most D = accept_index.shape[1] - 1 accepted drafts. A verifier fills
`predicts` (flat, at the row of each accepted node: the token that follows it), `accept_index` [B, D + 1] (rows of
the root and of the accepted nodes, -1 beyond) and `accept_token_num` [B] (accepted drafts, root not counted).
"""

from __future__ import annotations

from collections.abc import Callable

import torch


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
            return _at(candidates, child) == _at(target_predict, node)

        path, accepted = _descend(retrieve_next_token, retrieve_next_sibling, drafts, is_argmax)
    _record(path, accepted, retrieve_index, accept_index, accept_token_num)
    rows = accept_index[accept_index >= 0].long()
    predicts[rows] = target_predict.flatten()[rows].to(predicts.dtype)
    return predicts, accept_index, accept_token_num


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Accept or replace drafted tokens so that the output follows the target's distribution.

    candidates, retrive_*: [B, N] int64; uniform_samples: [B, N] and uniform_samples_for_final_sampling: [B] in
    [0, 1); target_probs: [B, N, V] float32; draft_probs: the same shape, all zero, used as scratch: probabilities
    of rejected siblings are written into it. predicts [>= B * N], accept_index, accept_token_num: int32, filled.

    One coin per node decides among its children: child number i is taken if the coin lies in its slice of
    [0, 1), slices as wide as the target's probabilities. If none is taken, the next token is drawn from the
    target without the rejected ones. Both together are the target's distribution as long as both thresholds are
    1; lower ones accept more than that. Stands for `sgl_kernel.tree_speculative_sampling_target_only`.
    """
    batch = len(candidates)
    request = torch.arange(batch)
    reached = torch.full((batch,), -1)
    mass = torch.zeros(batch, dtype=target_probs.dtype)

    def coin_in_slice(node: torch.Tensor, child: torch.Tensor, pending: torch.Tensor) -> torch.Tensor:
        mass.masked_fill_(reached != node, 0.0)
        reached.copy_(node)
        token = _at(candidates, child)
        probability = target_probs[request, node, token]
        mass.add_(torch.where(pending, probability, 0.0))
        taken = (_at(uniform_samples, node) < mass / threshold_acc) | (probability >= threshold_single)
        rejected = pending & ~taken
        draft_probs[request[rejected], node[rejected], token[rejected]] = probability[rejected]
        return taken

    drafts = accept_index.shape[1] - 1
    path, accepted = _descend(retrive_next_token, retrive_next_sibling, drafts, coin_in_slice)
    _record(path, accepted, retrive_index, accept_index, accept_token_num)
    tokens = candidates.gather(1, path[:, 1:])
    inner = torch.arange(drafts) < accepted[:, None]
    predicts[accept_index[:, :-1][inner].long()] = tokens[inner].to(predicts.dtype)

    last = _at(path, accepted)
    left = (target_probs[request, last] - draft_probs[request, last]).clamp_(min=0.0)
    final = sample_by_inverse(left, uniform_samples_for_final_sampling)
    predicts[_at(accept_index, accepted).long()] = final.to(predicts.dtype)


def sample_by_inverse(weights: torch.Tensor, coins: torch.Tensor) -> torch.Tensor:
    """Draw one index per row with probability proportional to its weight.

    weights: [B, V] non-negative, no row all zero; coins: [B] in [0, 1). Returns [B] int64. An index of weight
    zero is never drawn.
    """
    cumulative = weights.double().cumsum(1)
    index = torch.searchsorted(cumulative, (coins.double() * cumulative[:, -1])[:, None], right=True)
    last_possible = weights.shape[1] - 1 - (weights > 0).flip(1).int().argmax(1)
    return torch.minimum(index.squeeze(1), last_possible)


def _descend(
    next_token: torch.Tensor,
    next_sibling: torch.Tensor,
    depth: int,
    takes: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Walk all trees down at once, at each node to the first child that `takes` it.

    takes(node [B], child [B], pending [B] bool) -> [B] bool is asked once per child, in sibling order; entries
    that are not pending are ignored. Returns the path [B, depth + 1] of nodes (entries beyond the end are
    meaningless but valid) and how many drafts were taken [B].
    """
    batch = len(next_token)
    node = torch.zeros(batch, dtype=torch.long)
    walking = torch.ones(batch, dtype=torch.bool)
    taken_count = torch.zeros(batch, dtype=torch.long)
    path = torch.zeros(batch, depth + 1, dtype=torch.long)
    for level in range(1, depth + 1):
        child = torch.where(walking, _at(next_token, node), -1)
        chosen = torch.full((batch,), -1)
        while True:
            pending = child >= 0
            if not bool(pending.any()):
                break
            safe = child.clamp(min=0)
            hit = pending & takes(node, safe, pending)
            chosen = torch.where(hit, child, chosen)
            child = torch.where(pending & ~hit, _at(next_sibling, safe), -1)
        walking = chosen >= 0
        if not bool(walking.any()):
            break
        node = torch.where(walking, chosen, node)
        taken_count += walking
        path[:, level] = node
    return path, taken_count


def _record(
    path: torch.Tensor,
    accepted: torch.Tensor,
    retrieve_index: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
) -> None:
    """Write the rows of the accepted nodes and their number."""
    reached = torch.arange(path.shape[1]) <= accepted[:, None]
    accept_index.copy_(torch.where(reached, retrieve_index.gather(1, path), -1))
    accept_token_num.copy_(accepted)


def _at(table: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """table [B, N], column [B] -> table[b, column[b]]."""
    return table.gather(1, column[:, None]).squeeze(1)
