"""The GPU kernels of the small tensors, run by Triton's interpreter, against the torch operations that define them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine.children import in_process
from specswitch.engine import plain_tensors

pytest.importorskip("triton")

SLOTS, MAX_LEN, WINDOW = 300, 40, 7


def _batch(rows: int, token_dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Distinct request slots in no order, some lengths beyond one window."""
    draw = torch.Generator().manual_seed(rows)
    return {
        "table": torch.randint(0, 1 << 30, (SLOTS, MAX_LEN), generator=draw, dtype=torch.int32),
        "slots": torch.randperm(SLOTS, generator=draw)[:rows],
        "lens": torch.randint(0, MAX_LEN, (rows,), generator=draw),
        "tokens": torch.randint(0, 1 << 17, (rows,), generator=draw).to(token_dtype),
    }


def _kernel_inputs(rows: int, token_dtype: torch.dtype) -> list[list[int]]:
    from specswitch.engine import plain_kernels

    b = _batch(rows, token_dtype)
    got = plain_kernels.inputs_of(b["tokens"], b["table"], b["slots"], b["lens"])
    return [t.tolist() for t in got]


def _ring(width: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((SLOTS, WINDOW, width), -1, dtype=dtype), torch.full((SLOTS, WINDOW), -1)


def _write_ring(module: Any, rows: int, width: int, dtype: torch.dtype, of: torch.dtype) -> Any:
    b, ring = _batch(rows, torch.int64), _ring(width, dtype)
    hidden = torch.randn((rows, 2 * width), generator=torch.Generator().manual_seed(1)).to(of)[:, :width]
    module.keep_newest(*ring, b["slots"], b["lens"], hidden, b["tokens"])
    return ring


def _kernel_ring(*shape: Any) -> list[Any]:
    from specswitch.engine import plain_kernels

    hidden, tokens = _write_ring(plain_kernels, *shape)
    return [hidden.float().tolist(), tokens.tolist()]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("rows", [1, 128, 129])
def test_inputs_of_a_plain_step(rows: int, dtype: torch.dtype) -> None:
    b = _batch(rows, dtype)
    ids, locs = plain_tensors.inputs_of(b["tokens"], b["table"], b["slots"], b["lens"])
    assert (ids.dtype, locs.dtype) == (torch.int64, torch.int64)
    assert locs.tolist() == [int(b["table"][s, n]) for s, n in zip(b["slots"], b["lens"], strict=True)]
    got = in_process(_kernel_inputs, rows, dtype, env={"TRITON_INTERPRET": "1"})
    assert got == [ids.tolist(), locs.tolist()]


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "of"),
    [
        (1, 24, torch.float32, torch.float32),
        (5, 1024, torch.float16, torch.float16),
        (3, 1500, torch.float32, torch.float16),  # not a whole number of programs, and another dtype
    ],
    ids=["one-row", "one-program", "two-programs"],
)
def test_the_newest_position_into_the_ring(
    rows: int, width: int, dtype: torch.dtype, of: torch.dtype
) -> None:
    hidden, tokens = _write_ring(plain_tensors, rows, width, dtype, of)
    b = _batch(rows, torch.int64)
    written = {(int(s), int(n) % WINDOW) for s, n in zip(b["slots"], b["lens"], strict=True)}
    assert {tuple(at) for at in (tokens >= 0).nonzero().tolist()} == written
    assert {tuple(at) for at in (hidden != -1).any(dim=2).nonzero().tolist()} == written
    got = in_process(_kernel_ring, rows, width, dtype, of, env={"TRITON_INTERPRET": "1"})
    assert got == [hidden.float().tolist(), tokens.tolist()]


def test_without_a_gpu_nothing_is_compiled() -> None:
    table = torch.zeros((SLOTS, MAX_LEN), dtype=torch.int32)
    ring = _ring(8, torch.float32)
    plain_tensors.compile_kernels(*ring, table)
    assert bool((ring[1] == -1).all())
