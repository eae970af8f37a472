"""Positions of an extend batch."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from specswitch.engine.cpu.positions import compute_position_torch


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=6))
def test_positions_go_on_behind_each_prefix(requests: list[tuple[int, int]]) -> None:
    prefix = torch.tensor([p for p, _ in requests], dtype=torch.int32)
    extend = torch.tensor([n for _, n in requests], dtype=torch.int32)
    positions, start = compute_position_torch(prefix, extend)
    assert positions.tolist() == [p + i for p, n in requests for i in range(n)]
    assert positions.dtype == torch.int64
    assert start.tolist() == [sum(n for _, n in requests[:i]) for i in range(len(requests))]
    assert start.dtype == torch.int32


def test_prefix_lengths_left_over_from_another_batch_count_as_zero() -> None:
    positions, _ = compute_position_torch(torch.tensor([5, 6, 7]), torch.tensor([2, 1]))
    assert positions.tolist() == [0, 1, 0]
