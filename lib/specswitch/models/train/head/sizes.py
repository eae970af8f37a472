"""How large batches are: bounds per device, then what the device's memory has room for.

A batch that does not fit after all is halved and tried again, so that a run is not lost to an estimate.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from specswitch.models.network import Shape

Result = TypeVar("Result")
FREE_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows per batch of generation, of training and of measuring."""

    answer_rows: int
    train_rows: int
    measure_rows: int


def sizes_for(shape: Shape, device: torch.device, width: int) -> Sizes:
    """Sizes for sequences of `width` tokens."""
    if device.type != "cuda":
        return Sizes(answer_rows=32, train_rows=8, measure_rows=8)
    free, _total = torch.cuda.mem_get_info(device)
    # Keys and values in bf16; some fp32 copies of a row of logits.
    row = width * shape.layers * 2 * shape.kv_heads * shape.head_dim * 2 + 10 * 4 * shape.vocab
    fitting = max(1, min(4096, int(free * FREE_SHARE / row)))
    return Sizes(answer_rows=fitting, train_rows=64, measure_rows=min(256, fitting))


def halving(work: Callable[[int], Result], rows: int) -> tuple[Result, int]:
    """`work(rows)`, with half the rows each time the device's memory runs out; the result and the rows it took."""
    while True:
        try:
            return work(rows), rows
        except torch.OutOfMemoryError:
            if rows == 1:
                raise
        # Outside the handler: the exception holds the frames that hold the memory.
        rows //= 2
        logging.getLogger(__name__).warning("out of device memory, going on with %d rows", rows)
        free_memory()


def free_memory() -> None:
    """Give back what nothing holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
