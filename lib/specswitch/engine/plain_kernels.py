"""Triton kernels of the functions in `plain_tensors`, which say what they compute.

Nothing here may depend on a batch's size or on where a small tensor happens to lie: a kernel compiled anew stops the
server for a good part of a second in the middle of its work.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

ROWS = 128  # requests of one program
COLUMNS = 1024  # hidden values of one program


@triton.jit(
    do_not_specialize=["rows"],
    do_not_specialize_on_alignment=["bonus", "slots", "lens", "input_ids", "locs"],
)
def _inputs_of(bonus, table, slots, lens, input_ids, locs, rows, table_stride, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    mask = row < rows
    slot = tl.load(slots + row, mask=mask, other=0).to(tl.int64)
    at = tl.load(lens + row, mask=mask, other=0).to(tl.int64)
    loc = tl.load(table + slot * table_stride + at, mask=mask, other=0)
    tl.store(locs + row, loc.to(tl.int64), mask=mask)
    tl.store(input_ids + row, tl.load(bonus + row, mask=mask, other=0).to(tl.int64), mask=mask)


@triton.jit(do_not_specialize_on_alignment=["slots", "positions", "next_tokens"])
def _keep_newest(  # type: ignore[no-untyped-def]
    ring_hidden,
    ring_tokens,
    slots,
    positions,
    hidden,
    next_tokens,
    hidden_stride,
    window,
    width,
    COLUMNS: tl.constexpr,
):
    row, part = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row).to(tl.int64)
    entry = slot * window + tl.load(positions + row).to(tl.int64) % window
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    mask = column < width
    values = tl.load(hidden + row.to(tl.int64) * hidden_stride + column, mask=mask)
    tl.store(ring_hidden + entry * width + column, values.to(ring_hidden.dtype.element_ty), mask=mask)
    if part == 0:
        tl.store(ring_tokens + entry, tl.load(next_tokens + row).to(tl.int64))


def inputs_of(
    bonus: torch.Tensor, table: torch.Tensor, slots: torch.Tensor, lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `plain_tensors.inputs_of`."""
    rows = len(lens)
    both = torch.empty((2, rows), dtype=torch.int64, device=table.device)
    _inputs_of[(triton.cdiv(rows, ROWS),)](
        bonus, table, slots, lens, both[0], both[1], rows, table.stride(0), ROWS
    )
    return both[0], both[1]


def keep_newest(
    ring_hidden: torch.Tensor,
    ring_tokens: torch.Tensor,
    slots: torch.Tensor,
    positions: torch.Tensor,
    hidden: torch.Tensor,
    next_tokens: torch.Tensor,
) -> None:
    """See `plain_tensors.keep_newest`."""
    _, window, width = ring_hidden.shape
    _keep_newest[(len(slots), triton.cdiv(width, COLUMNS))](
        ring_hidden,
        ring_tokens,
        slots,
        positions,
        hidden,
        next_tokens,
        hidden.stride(0),
        window,
        width,
        COLUMNS,
    )
