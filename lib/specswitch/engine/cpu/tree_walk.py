"""Walking down many token trees at once, and writing down which nodes were accepted.

Layout as in `tree`: B requests, N nodes, at most D accepted drafts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch


def descend(
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
        child = torch.where(walking, at(next_token, node), -1)
        chosen = torch.full((batch,), -1)
        while True:
            pending = child >= 0
            if not bool(pending.any()):
                break
            safe = child.clamp(min=0)
            hit = pending & takes(node, safe, pending)
            chosen = torch.where(hit, child, chosen)
            child = torch.where(pending & ~hit, at(next_sibling, safe), -1)
        walking = chosen >= 0
        if not bool(walking.any()):
            break
        node = torch.where(walking, chosen, node)
        taken_count += walking
        path[:, level] = node
    return path, taken_count


def record(
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


def at(table: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """table [B, N], column [B] -> table[b, column[b]]."""
    return table.gather(1, column[:, None]).squeeze(1)
