"""Choosing the attention of the draft worker: the factory entries SGLang has no CPU case for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specswitch.engine.cpu.attention import CpuAttentionBackend
from specswitch.engine.cpu.draft_attention import CpuMultiStepDraftBackend

if TYPE_CHECKING:
    from sglang.srt.speculative.draft_utils import DraftBackendFactory


def create_decode_backend(factory: DraftBackendFactory) -> CpuMultiStepDraftBackend | None:
    """Attention for the drafting loop; None where one step is drafted, which needs no draft decode forward.

    Stands for `sglang.srt.speculative.draft_utils.DraftBackendFactory.create_decode_backend`.
    """
    if factory.speculative_num_steps == 1:
        return None
    return CpuMultiStepDraftBackend(factory.draft_model_runner, factory.topk, factory.speculative_num_steps)


def create_draft_extend_backend(factory: DraftBackendFactory) -> CpuAttentionBackend:
    """Attention for the draft extend after a verification.

    Stands for `sglang.srt.speculative.draft_utils.DraftBackendFactory.create_draft_extend_backend`.
    """
    return CpuAttentionBackend(factory.draft_model_runner)
