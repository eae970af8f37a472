"""The memory bound of lazy sync: computed at start, logged, and degraded in a stated way when it cannot hold.

The ring holds `slots x window` hidden states. It may take a quarter of what is still free after the engine's own
pools. If the wanted window does not fit it is halved, down to 8 tokens; below that the rule becomes `eager`, which
needs one token per slot.

Ranks have different amounts free, and the window decides when the draft model runs, with its collectives: so the
rank with the least decides for all.
"""

from __future__ import annotations

import logging
from typing import Any

import psutil
import torch

logger = logging.getLogger(__name__)

LEAST_WINDOW = 8
SHARE_OF_FREE = 0.25


def free_bytes(device: torch.device) -> int:
    """Memory that is free on this rank's device now, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def least_over_ranks(value: int, ranks: Any) -> int:
    """The smallest of the values of all tensor-parallel ranks (the engine's group); each of them has to call this."""
    if ranks.world_size == 1:
        return value
    least = torch.tensor(value, dtype=torch.int64)
    torch.distributed.all_reduce(least, torch.distributed.ReduceOp.MIN, group=ranks.cpu_group)
    return int(least)


def fit_window(*, rule: str, window: int, bytes_per_token: int, slots: int, free: int) -> tuple[str, int]:
    """The rule and window that fit.

    Args:
        rule: the sync rule asked for. window: tokens per slot asked for (lazy).
        bytes_per_token: size of one ring entry. slots: request slots.
        free: free bytes of the rank that has the fewest.

    Returns:
        (rule, window); the window of eager and stale is 1 unless lazy could be switched to later.
    """
    budget = int(free * SHARE_OF_FREE)
    fitted = window
    while fitted > LEAST_WINDOW and fitted * slots * bytes_per_token > budget:
        fitted = max(LEAST_WINDOW, fitted // 2)
    if fitted * slots * bytes_per_token > budget:
        if rule == "lazy":
            logger.warning(
                "Lazy draft sync needs %d MB for %d tokens x %d slots, %d MB are allowed: using eager sync. "
                "Lower --max-running-requests or --mem-fraction-static to have it.",
                LEAST_WINDOW * slots * bytes_per_token // 10**6,
                LEAST_WINDOW,
                slots,
                budget // 10**6,
            )
        return ("eager" if rule == "lazy" else rule), 1
    if fitted != window:
        logger.warning(
            "Lazy draft sync window lowered from %d to %d tokens: %d MB are allowed for it.",
            window,
            fitted,
            budget // 10**6,
        )
    return rule, fitted
