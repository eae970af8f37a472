"""Rows of the draft KV cache while speculation is off: K and V are written, nothing more is computed.

Drafting may begin right after a stock prefill, so that runs the whole draft model over the prompt: attention, MLP,
logits. While off nobody drafts next. What must be there is the draft KV, since the prefix cache gives it to others,
and in a model with one attention layer K and V of a position need that position's inputs alone. So the draft model
is run up to its attention, which writes both and ends the forward. The last position's hidden states stay in the
ring: catching up computes the rest from there when speculation resumes.

The same empties windows that plain steps have filled, and shortens a catching up that would be large.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftInput

from specswitch.engine.draft_state import mrope_of_text, put
from specswitch.engine.draft_sync import DraftSync

# Positions of one forward over windows: as many as fill a GPU, so that a large batch needs little memory at once.
MOST_TOKENS = 8192


class _RowsWrittenError(Exception):
    """Ends a draft forward whose K and V are in the pool."""


class _WriteRows:
    """Stands where the attention backend stands in a `ForwardBatch`."""

    def forward(
        self,
        q: Any,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: Any,
        forward_batch: Any,
        save_kv_cache: bool = True,
    ) -> None:
        if save_kv_cache:
            pool = forward_batch.token_to_kv_pool
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v, layer.k_scale, layer.v_scale)
        raise _RowsWrittenError


def _by_tokens(rows: list[int], counts: list[int]) -> list[list[int]]:
    """`rows` in groups of at most MOST_TOKENS tokens, or of one row."""
    groups: list[list[int]] = [[]]
    tokens = 0
    for row, count in zip(rows, counts, strict=True):
        if groups[-1] and tokens + count > MOST_TOKENS:
            groups.append([])
            tokens = 0
        groups[-1].append(row)
        tokens += count
    return groups


def why_not(draft_runner: Any, server_args: Any) -> str | None:
    """Why this draft model needs its whole forward for its K and V; None if they can be had alone."""
    layers = sum(isinstance(module, RadixAttention) for module in draft_runner.model.modules())
    if layers != 1:
        return (
            f"the draft model has {layers} attention layers: only the first one's K and V need no attention"
        )
    if type(draft_runner.token_to_kv_pool) is not MHATokenToKVPool:
        return f"its KV pool is a {type(draft_runner.token_to_kv_pool).__name__}"
    if getattr(server_args, "enable_lora", False):
        return "LoRA adapters are on"
    return None


class DraftKvRows:
    """Writes rows of the draft KV cache, of prompts and of full windows.

    Args:
        draft_runner: model runner of the draft model, one for which `why_not` is None.
        context: makes the context in which draft forwards run.
    """

    def __init__(
        self,
        draft_runner: Any,
        context: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ) -> None:
        self.draft_runner = draft_runner
        self.context = context
        self.forwards = 0
        self._backend = _WriteRows()

    def takes(self, batch: Any) -> bool:
        """Whether a batch (of either kind) is a prefill of token ids and nothing else."""
        return (
            batch.forward_mode is ForwardMode.EXTEND
            and batch.input_embeds is None
            and batch.replace_embeds is None
            and batch.global_num_tokens is None
            and not any(item is not None for item in batch.multimodal_inputs or ())
        )

    def write(
        self,
        batch: Any,
        starts: list[int],
        counts: list[int],
        hidden: torch.Tensor,
        next_tokens: torch.Tensor,
        sync: DraftSync,
    ) -> None:
        """Write the draft KV of the positions just prefilled; their last ones become pending in `sync`.

        Args:
            batch: the prefill batch, after the target's forward; read only.
            starts: [b] first position of each request in this batch. counts: [b] how many (host, at least one).
            hidden: [sum(counts), hidden_size] the target's hidden states. next_tokens: [b] tokens sampled.
        """
        tokens, device = sum(counts), batch.input_ids.device
        ends = np.cumsum(counts) - 1
        last = np.asarray(starts) + np.asarray(counts) - 1
        positions = [np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]
        on_device = put(torch.from_numpy(np.concatenate([*positions, ends, last])), device)
        of_token, of_end, of_last = on_device.split([tokens, len(counts), len(counts)])

        # The draft reads at each position the token that follows it.
        input_ids = torch.roll(batch.input_ids, -1)
        input_ids[of_end] = next_tokens.to(input_ids.dtype)
        self._forward(
            batch,
            batch_size=len(counts),
            input_ids=input_ids,
            hidden=hidden,
            positions=of_token,
            mrope_positions=mrope_of_text(of_token) if self.draft_runner.model_is_mrope else None,
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            seq_lens_cpu=batch.seq_lens_cpu,
            out_cache_loc=batch.out_cache_loc,
            extend_prefix_lens_cpu=starts,
            extend_seq_lens_cpu=counts,
        )
        sync.owe_last_position(
            batch.reqs, last.tolist(), batch.req_pool_indices, of_last, hidden[of_end], next_tokens
        )

    def write_pending(self, batch: Any, lens: list[int], rows: list[int], sync: DraftSync) -> int:
        """Write the draft KV of every pending token of `rows`; nothing of theirs is pending any more.

        No draft state comes of it, so the next step must be a plain one, whose token will be pending.

        Args:
            batch: a decode batch of either kind; read only. lens: its lengths (host).

        Returns:
            How many positions were written.
        """
        written = self._write_up_to(batch, lens, rows, sync)
        sync.forget([batch.reqs[i] for i in rows])
        return written

    def shorten(self, batch: Any, lens: list[int], rows: list[int], sync: DraftSync) -> int:
        """Leave catching up at most MOST_TOKENS positions, or the last of each row: write K and V of the others.

        The draft state depends on those K and V and on the last position, so it comes out the same. Arguments and
        answer as of `write_pending`.
        """
        counts = [lens[i] - n for i, n in zip(rows, sync.starts(batch.reqs, lens, rows), strict=True)]
        if sum(counts) <= max(MOST_TOKENS, len(rows)):
            return 0
        rows = [i for i, count in zip(rows, counts, strict=True) if count > 1]
        written = self._write_up_to(batch, [n - 1 for n in lens], rows, sync)
        sync.keep_last_pending([batch.reqs[i] for i in rows], [lens[i] for i in rows])
        return written

    def _write_up_to(self, batch: Any, lens: list[int], rows: list[int], sync: DraftSync) -> int:
        """Write K and V of the pending positions of `rows` that lie below `lens`; how many."""
        written = 0
        starts = sync.starts(batch.reqs, lens, rows)
        for some in _by_tokens(rows, [lens[i] - n for i, n in zip(rows, starts, strict=True)]):
            pending = sync.pending_tokens(batch, lens, some)
            self._forward(
                batch,
                batch_size=len(some),
                input_ids=pending.input_ids,
                hidden=pending.hidden_states,
                positions=pending.positions,
                mrope_positions=pending.mrope_positions,
                req_pool_indices=pending.req_pool_indices,
                seq_lens=pending.seq_lens,
                seq_lens_cpu=pending.seq_lens_cpu,
                out_cache_loc=pending.out_cache_loc,
                extend_prefix_lens_cpu=pending.starts,
                extend_seq_lens_cpu=pending.counts,
            )
            written += len(pending.positions)
        return written

    def _forward(self, batch: Any, *, hidden: torch.Tensor, **fields: Any) -> None:
        """The draft model up to its attention; `fields` of the `ForwardBatch`, all rows one behind the other."""
        forward_batch = ForwardBatch(
            forward_mode=ForwardMode.EXTEND,
            seq_lens_sum=int(fields["seq_lens_cpu"].sum()),
            extend_num_tokens=len(fields["positions"]),
            req_to_token_pool=self.draft_runner.req_to_token_pool,
            token_to_kv_pool=self.draft_runner.token_to_kv_pool,
            attn_backend=self._backend,
            spec_algorithm=batch.spec_algorithm,
            spec_info=EagleDraftInput(hidden_states=hidden, num_tokens_per_req=1, num_tokens_for_logprob_per_req=1),
            capture_hidden_mode=CaptureHiddenMode.LAST,
            **fields,
        )  # fmt: skip
        with self.context(), contextlib.suppress(_RowsWrittenError):
            self.draft_runner.model.forward(fields["input_ids"], fields["positions"], forward_batch)
            raise RuntimeError(f"{type(self.draft_runner.model).__name__} ran without its attention layer")
        self.forwards += 1
