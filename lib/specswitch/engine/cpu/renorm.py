"""Cutting a distribution to its top k or top p, as the verification's sampling needs it."""

from __future__ import annotations

import torch


def top_k_renorm_prob(probs: torch.Tensor, top_k: torch.Tensor | int) -> torch.Tensor:
    """Keep the top_k largest entries of each row and scale them to sum 1.

    probs: [N, V]; top_k: [N] integer or one integer, values >= V keep everything. Exactly k entries stay: of equal
    ones at the edge, those with the lower index. Returns float32 [N, V]. Stands for `sgl_kernel.top_k_renorm_prob`.
    """
    probs = probs.float()
    size = probs.shape[1]
    limit = torch.as_tensor(top_k).expand(len(probs)).clamp(max=size).long()
    if len(limit) == 0 or int(limit.min()) >= size:
        return probs
    order = probs.sort(dim=1, descending=True, stable=True).indices
    beyond = torch.arange(size) >= limit[:, None]
    return _renormalised(probs.masked_fill(_unsorted(beyond, order), 0.0))


def top_p_renorm_prob(probs: torch.Tensor, top_p: torch.Tensor | float) -> torch.Tensor:
    """Keep each row's smallest set of largest entries whose sum reaches top_p, and scale it to sum 1.

    probs: [N, V] summing to 1; top_p: [N] or one float in (0, 1]. Returns float32 [N, V]. Stands for
    `sgl_kernel.top_p_renorm_prob`.
    """
    probs = probs.float()
    limit = torch.as_tensor(top_p).expand(len(probs))
    if len(limit) == 0 or float(limit.min()) >= 1.0:
        return probs
    ranked, order = probs.sort(dim=1, descending=True, stable=True)
    before = ranked.cumsum(1) - ranked
    beyond = (before >= limit[:, None]) & (torch.arange(probs.shape[1]) > 0)
    return _renormalised(probs.masked_fill(_unsorted(beyond, order), 0.0))


def _unsorted(flags: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Carry flags [N, V] given in sorted order back to the original order."""
    return torch.empty_like(flags).scatter_(1, order, flags)


def _renormalised(probs: torch.Tensor) -> torch.Tensor:
    return probs / probs.sum(1, keepdim=True)
