"""Index arithmetic for batches whose rows have different lengths."""

from __future__ import annotations

import torch


def ragged_ranges(starts: torch.Tensor, ends: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """List the half-open ranges [starts[b], ends[b]) one after the other.

    starts, ends: [B] integer. Returns `row` and `value`, each [sum(ends - starts)] int64: which range an entry
    belongs to, and the entry itself.
    """
    lengths = ends.long() - starts
    row = torch.repeat_interleave(lengths)
    # What has to be added to the running index to start row b at starts[b].
    shift = starts - (lengths.cumsum(0) - lengths)
    return row, torch.arange(row.numel()) + shift[row]


def exclusive_cumsum(lengths: torch.Tensor) -> torch.Tensor:
    """[B] integer lengths -> [B] int64 offset at which each row starts when they are laid end to end."""
    return lengths.cumsum(0) - lengths
