"""Sampled verification: keep or replace drafts so that the text follows the target's distribution."""

from __future__ import annotations

import torch

from specswitch.engine.cpu.tree_walk import at, descend, record


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
        token = at(candidates, child)
        probability = target_probs[request, node, token]
        mass.add_(torch.where(pending, probability, 0.0))
        taken = (at(uniform_samples, node) < mass / threshold_acc) | (probability >= threshold_single)
        rejected = pending & ~taken
        draft_probs[request[rejected], node[rejected], token[rejected]] = probability[rejected]
        return taken

    drafts = accept_index.shape[1] - 1
    path, accepted = descend(retrive_next_token, retrive_next_sibling, drafts, coin_in_slice)
    record(path, accepted, retrive_index, accept_index, accept_token_num)
    tokens = candidates.gather(1, path[:, 1:])
    inner = torch.arange(drafts) < accepted[:, None]
    predicts[accept_index[:, :-1][inner].long()] = tokens[inner].to(predicts.dtype)

    last = at(path, accepted)
    left = (target_probs[request, last] - draft_probs[request, last]).clamp_(min=0.0)
    final = sample_by_inverse(left, uniform_samples_for_final_sampling)
    predicts[at(accept_index, accepted).long()] = final.to(predicts.dtype)


def sample_by_inverse(weights: torch.Tensor, coins: torch.Tensor) -> torch.Tensor:
    """Draw one index per row with probability proportional to its weight.

    weights: [B, V] non-negative, no row all zero; coins: [B] in [0, 1). Returns [B] int64. An index of weight
    zero is never drawn.
    """
    cumulative = weights.double().cumsum(1)
    index = torch.searchsorted(cumulative, (coins.double() * cumulative[:, -1])[:, None], right=True)
    last_possible = weights.shape[1] - 1 - (weights > 0).flip(1).int().argmax(1)
    return torch.minimum(index.squeeze(1), last_possible)
