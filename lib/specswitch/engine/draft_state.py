"""What a draft step starts from, and what is missing for one: the tensors that pass between sync, workers and steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.speculative.eagle_info import EagleDraftInput

PLACEHOLDERS = "specswitch_placeholders"  # attribute of a worker


def put(host: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a host tensor to the device without waiting for what the device still has to do."""
    pinned = host.pin_memory() if device.type == "cuda" else host
    return pinned.to(device, non_blocking=True)


@dataclass(slots=True)
class DraftState:
    """What the next draft step starts from, for some rows of a batch.

    `rows`: batch rows. `topk_p` [rows, topk] f32, `topk_index` [rows, topk] i64, `hidden_states` [rows, H] in
    the draft's width and dtype. `tokens`: positions brought into the draft KV cache.
    """

    rows: list[int]
    topk_p: torch.Tensor
    topk_index: torch.Tensor
    hidden_states: torch.Tensor
    tokens: int


@dataclass(slots=True)
class PendingTokens:
    """Tokens without draft KV, of some rows of a batch, one row's behind the other's: T in all.

    `starts`, `counts`: [rows] first position and how many (host). `positions` [T], `input_ids` [T] i64 (the token
    that follows each position), `hidden_states` [T, hidden_size], `out_cache_loc` [T] i64, the KV slots.
    `req_pool_indices`, `seq_lens`, `seq_lens_cpu` [rows]. `mrope_positions` [3, T] i64; None without M-RoPE.
    """

    starts: list[int]
    counts: list[int]
    positions: torch.Tensor
    input_ids: torch.Tensor
    hidden_states: torch.Tensor
    out_cache_loc: torch.Tensor
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor
    mrope_positions: torch.Tensor | None


def mrope_of_text(
    positions: torch.Tensor, rows: torch.Tensor | None = None, images: list[Any] | None = None
) -> torch.Tensor:
    """What an M-RoPE model takes for the positions of text, which may stand behind a prompt with images.

    Args:
        positions: [T] i64. rows: [T] the batch row of each; needed only where there are images.
        images: per batch row the engine's multimodal inputs, or None; None: no row has any.

    Returns:
        [3, T] i64: the positions three times, moved by as much as the row's images count more or less than tokens.
    """
    if images is not None and any(item is not None for item in images):
        moved = [0 if item is None else int(item.mrope_position_delta.flatten()[0]) for item in images]
        positions = positions + put(torch.tensor(moved), positions.device)[rows]
    return positions.repeat(3, 1)


def merge_state(spec_info: EagleDraftInput, state: DraftState) -> None:
    """Put a caught-up state into the batch's draft input; rows not in it keep theirs."""
    if len(state.rows) == len(spec_info.topk_p):
        spec_info.topk_p = state.topk_p
        spec_info.topk_index = state.topk_index
        spec_info.hidden_states = state.hidden_states
        return
    rows = put(torch.tensor(state.rows), spec_info.topk_p.device)
    spec_info.topk_p = spec_info.topk_p.index_copy(0, rows, state.topk_p.to(spec_info.topk_p.dtype))
    spec_info.topk_index = spec_info.topk_index.index_copy(
        0, rows, state.topk_index.to(spec_info.topk_index.dtype)
    )
    spec_info.hidden_states = spec_info.hidden_states.index_copy(
        0, rows, state.hidden_states.to(spec_info.hidden_states.dtype)
    )


def placeholder_state(worker: Any, rows: int) -> dict[str, torch.Tensor]:
    """Well-shaped, meaningless draft state: what a batch carries while its real one is pending. Read only.

    `worker`: one whose draft runner tells width and dtype (the v1 worker itself, the v2 draft worker). It keeps
    the zeros, which would otherwise be filled anew in every step.
    """
    kept: dict[str, torch.Tensor] | None = getattr(worker, PLACEHOLDERS, None)
    if kept is None:
        device, slots = worker.device, worker.req_to_token_pool.req_to_token.shape[0]
        kept = {
            "topk_p": torch.zeros((slots, worker.topk), dtype=torch.float32, device=device),
            "topk_index": torch.zeros((slots, worker.topk), dtype=torch.int64, device=device),
            "hidden_states": torch.zeros(
                (slots, EagleDraftInput.hidden_size_for(worker)),
                dtype=EagleDraftInput.dtype_for(worker),
                device=device,
            ),
        }
        setattr(worker, PLACEHOLDERS, kept)
    return {name: zeros[:rows] for name, zeros in kept.items()}
