"""Forced acceptance lengths."""

from __future__ import annotations

import pytest
import torch

from engine.harness import in_process


def simulate(method: str, length: float, runs: int) -> list[tuple[list[list[int]], list[int], bool]]:
    from specswitch.engine.cpu.simulate import generate_simulated_accept_index

    torch.manual_seed(0)
    out = []
    for _ in range(runs):
        accept_index = torch.tensor([[0, 1, -1, -1], [4, -1, -1, -1]], dtype=torch.int32)
        predict = torch.zeros(8, dtype=torch.int32)
        correct = torch.zeros(2, dtype=torch.int32)
        new = generate_simulated_accept_index(
            accept_index, predict, correct, 2, 3, simulate_acc_len=length, simulate_acc_method=method
        )
        out.append((new.tolist(), correct.tolist(), bool(predict.eq(100).all())))
    return out


@pytest.mark.engine
def test_the_mean_length_is_the_one_asked_for_and_never_out_of_range() -> None:
    for method, length in (("match-expected", 2.5), ("match-expected", 9.0), ("multinomial", 2.0)):
        results = in_process(simulate, method, length, 400)
        mean = sum(c[0] + 1 for _, c, _ in results) / len(results)
        assert mean == pytest.approx(min(length, 4.0), abs=0.25)
        for rows, (first, second), placeholder in results:
            assert first == second
            assert placeholder
            for start, row in zip((0, 4), rows, strict=True):
                assert row == [start + i if i <= first else -1 for i in range(4)]
