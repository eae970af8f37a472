"""Attention on a CPU for every forward mode of a speculating server.

Registered under the engine's own name `torch_native`: a new name would send other parts of the engine to Triton.
Work per layer is one gather of K and V and one batched `scaled_dot_product_attention`; everything that depends on
the batch alone is planned once per forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
from sglang.srt.layers.radix_attention import AttentionType

from specswitch.engine.cpu import attention_plan as planning
from specswitch.engine.cpu.attend import attend_padded, attend_ragged

if TYPE_CHECKING:
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch
    from sglang.srt.model_executor.model_runner import ModelRunner


class CpuAttentionBackend(AttentionBackend):
    """Stands for `sglang.srt.layers.attention.torch_native_backend.TorchNativeAttnBackend`.

    Knows EXTEND, MIXED, DECODE, TARGET_VERIFY, DRAFT_EXTEND and DRAFT_EXTEND_V2 of decoder-only models. Sliding
    windows, soft caps, cross attention and bidirectional layers are refused with NotImplementedError.
    """

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__()
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.plan: planning.Plan | None = None

    def support_triton(self) -> bool:
        return False

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Plan this forward; called by the engine once before the layers run."""
        self.plan = self._plan(forward_batch)

    def _plan(self, batch: ForwardBatch) -> planning.Plan:
        table, rows, seq_lens = self.req_to_token, batch.req_pool_indices, batch.seq_lens
        mode = batch.forward_mode
        if mode.is_decode():
            return planning.plan_decode(table, rows, seq_lens)
        if mode.is_target_verify():
            spec = batch.spec_info
            count = spec.draft_token_num
            if spec.topk == 1:
                return planning.plan_last_tokens(table, rows, seq_lens + count, count)
            return planning.plan_tree(table, rows, seq_lens, count, spec.custom_mask)
        # In v1's draft extend `extend_prefix_lens` is left over from the prefill: only the counts are right.
        if mode.is_draft_extend(include_v2=True):
            return planning.plan_few_last_tokens(table, rows, seq_lens, batch.extend_seq_lens)
        return planning.plan_extend(table, rows, seq_lens.tolist(), batch.extend_seq_lens.tolist())

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
    ) -> torch.Tensor:
        """q, k, v: [T, heads * head_dim]; returns [T, q_heads * v_head_dim]. The same as `forward_extend`."""
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
    ) -> torch.Tensor:
        """Store K and V of the T tokens, attend as planned. Shapes as in `forward_decode`."""
        _refuse_unsupported(layer)
        pool = forward_batch.token_to_kv_pool
        if save_kv_cache:
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        keys, values = pool.get_key_buffer(layer.layer_id), pool.get_value_buffer(layer.layer_id)
        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim)
        if isinstance(self.plan, planning.PaddedPlan):
            out = attend_padded(query, keys, values, self.plan, layer.scaling)
        elif self.plan is not None:
            out = attend_ragged(query, keys, values, self.plan, layer.scaling)
        else:
            raise RuntimeError("attention without a plan: call init_forward_metadata before the forward")
        return out.reshape(-1, layer.tp_q_head_num * layer.v_head_dim)


def _refuse_unsupported(layer: RadixAttention) -> None:
    """Say no to what would silently give wrong numbers."""
    reasons = []
    if layer.sliding_window_size is not None and layer.sliding_window_size > -1:
        reasons.append(f"a sliding window of {layer.sliding_window_size}")
    if layer.logit_cap:
        reasons.append(f"logit_cap={layer.logit_cap}")
    if layer.is_cross_attention or layer.attn_type != AttentionType.DECODER:
        reasons.append(f"attention type {layer.attn_type}, cross={layer.is_cross_attention}")
    if reasons:
        raise NotImplementedError(
            f"layer {layer.layer_id} has {', '.join(reasons)}: use a GPU for this model"
        )
