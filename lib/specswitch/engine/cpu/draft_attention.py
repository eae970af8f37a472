"""Attention of the drafting loop: topk branches per request, one more drafted token per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from specswitch.engine.cpu.attention import CpuAttentionBackend
from specswitch.engine.cpu.attention_plan import PaddedPlan

if TYPE_CHECKING:
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner


class CpuMultiStepDraftBackend:
    """One backend per drafting step but the last, which needs no forward.

    Stands for e.g. `sglang.srt.layers.attention.triton_backend.TritonMultiStepDraftBackend`. In step i, branch k of
    a request sees the sequence and the i + 1 tokens of its own branch, whose KV slots stand in the request's row
    of the table behind the sequence.
    """

    def __init__(self, model_runner: ModelRunner, topk: int, speculative_num_steps: int) -> None:
        self.topk = topk
        self.speculative_num_steps = speculative_num_steps
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.attn_backends = [CpuAttentionBackend(model_runner) for _ in range(speculative_num_steps - 1)]

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Plan all steps of one drafting loop. seq_lens: [B] without drafted tokens."""
        steps = self.speculative_num_steps
        rows, seq_lens = forward_batch.req_pool_indices, forward_batch.seq_lens
        prefix = torch.arange(int(seq_lens.max()))
        drafted = draft_columns(seq_lens, self.topk, steps)
        batch, width = len(rows), steps * self.topk
        # Step-major, so that step i needs a leading part of the columns only.
        drafted = drafted.transpose(1, 2).reshape(batch, width)
        slots = torch.cat(
            [self.req_to_token[rows, : len(prefix)], self.req_to_token[rows[:, None], drafted]], dim=1
        )
        own_branch = torch.eye(self.topk, dtype=torch.bool).repeat(1, steps)
        in_sequence = (prefix < seq_lens[:, None]).unsqueeze(1)
        allowed = torch.cat(
            [in_sequence.expand(batch, self.topk, -1), own_branch.expand(batch, -1, -1)], dim=2
        )
        for step, backend in enumerate(self.attn_backends):
            upto = len(prefix) + (step + 1) * self.topk
            backend.plan = PaddedPlan(slots[:, :upto], allowed[:, :, :upto])


def draft_columns(seq_lens: torch.Tensor, topk: int, steps: int) -> torch.Tensor:
    """Columns of the request table that hold the drafted tokens, [B, topk, steps] int64. seq_lens: [B]."""
    branch_start = seq_lens[:, None] + torch.arange(topk) * steps
    return branch_start[:, :, None] + torch.arange(steps)
