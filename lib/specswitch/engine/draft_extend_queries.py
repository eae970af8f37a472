"""Where the queries of v1's draft extend lie: told to the Triton backend as they are, not as they are for v2.

After a verify v1 packs the accepted tokens of all requests one behind the other, v2 gives each request the same number
of places. The pinned engine's Triton backend, preparing the captured draft extend, assumes v2's layout for both: from
the second request of a batch on, the next draft would start from another request's rows. Outputs stay right (the
target verifies), acceptance falls. Its uncaptured draft extend and the fa3 backend take the accepted counts.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

import torch

logger = logging.getLogger(__name__)

BACKEND = "TritonAttnBackend"
PREPARE = "init_forward_metadata_replay_cuda_graph"
PARAMETERS = (
    "bs",
    "req_pool_indices",
    "seq_lens",
    "seq_lens_sum",
    "encoder_lens",
    "forward_mode",
    "spec_info",
    "seq_lens_cpu",
)


def lay_out_by_accepted(backend: Any) -> bool:
    """Make the backend of v1's captured draft extend lay queries out by accepted tokens; True if it needed that.

    Another backend, or one whose method takes other arguments than the pinned engine's, is left as it is.
    """
    if type(backend).__name__ != BACKEND:
        return False
    stock = getattr(backend, PREPARE)
    if tuple(inspect.signature(stock).parameters) != PARAMETERS:
        logger.warning("%s.%s takes other arguments than known: left as it is", BACKEND, PREPARE)
        return False

    def prepare(
        bs: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_sum: int,
        encoder_lens: torch.Tensor | None,
        forward_mode: Any,
        spec_info: Any,
        seq_lens_cpu: torch.Tensor | None,
    ) -> None:
        stock(
            bs,
            req_pool_indices,
            seq_lens,
            seq_lens_sum,
            encoder_lens,
            forward_mode,
            spec_info,
            seq_lens_cpu,
        )
        if forward_mode.is_draft_extend():  # v1's; v2's has a mode of its own
            ends = backend.qo_indptr[1 : bs + 1]
            torch.cumsum(spec_info.num_accept_tokens[:bs], dim=0, dtype=ends.dtype, out=ends)  # one kernel

    setattr(backend, PREPARE, prepare)
    logger.info("Draft extend of v1: queries laid out by accepted tokens")
    return True
