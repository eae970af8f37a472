"""The arithmetic of attention on a planned batch: gather K and V by slot, one batched softmax attention."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from specswitch.engine.cpu.attention_plan import PaddedPlan, RaggedRequest


def attend_padded(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, plan: PaddedPlan, scale: float
) -> torch.Tensor:
    """query: [T, Hq, D]; keys: [slots, Hkv, D]; values: [slots, Hkv, Dv]. Returns [T, Hq, Dv].

    The Hq / Hkv query heads that share a KV head are laid out as further query rows, so K and V are not repeated.
    """
    batch, queries, length = plan.allowed.shape
    kv_heads = keys.shape[1]
    group = query.shape[1] // kv_heads
    if plan.pick is not None:
        query = query[plan.pick]
    folded = (
        query.view(batch, queries, kv_heads, group, -1)
        .transpose(1, 2)
        .reshape(batch, kv_heads, queries * group, -1)
    )
    flat = plan.slots.reshape(-1)
    k, v = (
        cache.index_select(0, flat).to(query.dtype).view(batch, length, kv_heads, -1).transpose(1, 2)
        for cache in (keys, values)
    )
    out = scaled_dot_product_attention(folded, k, v, attn_mask=plan.bias(group, query.dtype), scale=scale)
    out = out.view(batch, kv_heads, queries, group, -1).transpose(1, 2)
    if plan.keep is not None:
        return out[plan.keep].flatten(1, 2)
    return out.reshape(batch * queries, kv_heads * group, -1)


def attend_ragged(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: list[RaggedRequest],
    scale: float,
) -> torch.Tensor:
    """One attention per request. Shapes as in `attend_padded`."""
    out = query.new_empty(query.shape[0], query.shape[1], values.shape[2])
    for one in plan:
        k, v = (cache[one.slots].to(query.dtype).transpose(0, 1) for cache in (keys, values))
        out[one.start : one.end] = scaled_dot_product_attention(
            query[one.start : one.end].transpose(0, 1).unsqueeze(0),
            k.unsqueeze(0),
            v.unsqueeze(0),
            attn_mask=one.allowed,
            is_causal=one.allowed is None,
            scale=scale,
            enable_gqa=query.shape[1] != keys.shape[1],
        )[0].transpose(0, 1)
    return out
