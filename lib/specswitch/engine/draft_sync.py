"""What happens to the draft model's KV cache for tokens made by plain steps.

EAGLE-3 needs, at every position, the target's hidden states of that position together with the next token.
A plain step that throws them away leaves a hole in the draft KV cache, and acceptance collapses later, also
for other requests through the prefix cache.

- `lazy`: keep (hidden states, next token) of the newest plain-step tokens in a ring on the device, a window
  of W tokens per request slot; catch up in one batched draft extend when speculation resumes. A full window is
  emptied by writing its K and V alone, where the draft model allows that (`draft_kv_rows`). A request that ends
  with tokens still pending keeps those out of the prefix cache.
- `eager`: the same with catching up after every plain step.
- `stale`: nothing; the control that shows what the others save.

A request carries one integer, `req.specswitch_draft_len`: the position from which catching up has to begin, or
None when nothing is pending. The tokens pending are exactly the positions from there to its length. All of them
lack draft KV, but for the last position of a prompt that was prefilled off: its K and V are there, its draft state
is not (`req.specswitch_prompt_len` tells).
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import ModelWorkerBatch
from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode
from sglang.srt.speculative.eagle_info import EagleDraftInput
from sglang.srt.utils.common import fast_topk

from specswitch.engine.draft_state import DraftState, PendingTokens, mrope_of_text, put
from specswitch.engine.plain_tensors import compile_kernels, keep_newest

logger = logging.getLogger(__name__)

DRAFT_LEN = "specswitch_draft_len"
PROMPT_LEN = "specswitch_prompt_len"


def draft_len(req: Any) -> int | None:
    """Position of `req` from which the draft has to catch up; None = nowhere."""
    return getattr(req, DRAFT_LEN, None)


def rows_of(req: Any) -> int | None:
    """Positions of `req` that have draft KV; None = all committed ones."""
    start = draft_len(req)
    return None if start is None else max(start, getattr(req, PROMPT_LEN, 0))


class DraftSync:
    """The sync rule and its ring buffer, for one worker.

    Args:
        draft_runner: model runner of the draft model.
        req_to_token: [slots, max_len] i32, the engine's table of KV slots.
        hidden_size: width of the target's hidden states that the draft reads (3H for EAGLE-3).
        dtype: their dtype.
        topk: draft branches per step.
        window: W, plain-step tokens remembered per request slot.
        rule: lazy, eager or stale.
        context: makes the context in which draft forwards run.
    """

    def __init__(
        self,
        *,
        draft_runner: Any,
        req_to_token: torch.Tensor,
        hidden_size: int,
        dtype: torch.dtype,
        topk: int,
        window: int,
        rule: str,
        context: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ) -> None:
        self.draft_runner = draft_runner
        self.req_to_token = req_to_token
        self.topk = topk
        self.rule = rule
        self.window = window
        self.context = context
        self.extend_forwards = 0
        slots, device = req_to_token.shape[0], req_to_token.device
        self.hidden = torch.empty((slots, window, hidden_size), dtype=dtype, device=device)
        self.tokens = torch.empty((slots, window), dtype=torch.int64, device=device)
        self._rule_changed = False
        compile_kernels(self.hidden, self.tokens, req_to_token)

    @property
    def buffer_bytes(self) -> int:
        """Size of the ring on the device."""
        return self.hidden.nbytes + self.tokens.nbytes

    def set_rule(self, rule: str) -> None:
        """Use `rule` from the next step on; what is pending under the old one is caught up first."""
        if rule != self.rule:
            self.rule = rule
            self._rule_changed = True

    def forget(self, reqs: list[Any]) -> None:
        """The draft KV of these requests is complete: nothing is pending."""
        for req in reqs:
            setattr(req, DRAFT_LEN, None)

    def owe_last_position(
        self,
        reqs: list[Any],
        last: list[int],
        slots: torch.Tensor,
        positions: torch.Tensor,
        hidden: torch.Tensor,
        next_tokens: torch.Tensor,
    ) -> None:
        """Prefill has written draft KV up to `last` [b] and no draft state: catching up begins there.

        The other arguments are those of `remember`.
        """
        self.forget(reqs)
        self.remember(reqs, last, slots, positions, hidden, next_tokens)
        for req, n in zip(reqs, last, strict=True):
            setattr(req, PROMPT_LEN, n + 1)

    def keep_last_pending(self, reqs: list[Any], lens: list[int]) -> None:
        """The draft KV of these requests is complete up to their last position, which is all that is pending."""
        for req, n in zip(reqs, lens, strict=True):
            setattr(req, DRAFT_LEN, n - 1)

    def leave_out_finished(self, reqs: list[Any], lens: list[int]) -> None:
        """Requests that ended in a step without draft extend have draft KV up to `lens`, their lengths before it."""
        if self.rule == "stale":
            return
        for req, n in zip(reqs, lens, strict=True):
            if req.finished():
                setattr(req, DRAFT_LEN, n)

    def pending_rows(self, reqs: list[Any]) -> list[int]:
        """Rows that have tokens without draft KV."""
        return [i for i, req in enumerate(reqs) if draft_len(req) is not None]

    def must_catch_up(self, reqs: list[Any], lens: list[int]) -> bool:
        """Whether a plain step would overwrite a pending entry of some request's window."""
        full = any(
            start is not None and n - start >= self.window
            for start, n in zip(map(draft_len, reqs), lens, strict=True)
        )
        changed, self._rule_changed = self._rule_changed, False
        return full or changed

    def remember(
        self,
        reqs: list[Any],
        lens: list[int],
        slots: torch.Tensor,
        positions: torch.Tensor,
        hidden: torch.Tensor,
        next_tokens: torch.Tensor,
    ) -> None:
        """Keep what the draft will need of the tokens that a plain step just processed.

        Args:
            reqs, lens: the batch and its lengths before the step (host).
            slots: [b] request slots. positions: [b] positions processed (= lens, on the device).
            hidden: [b, hidden_size] target hidden states there. next_tokens: [b] tokens sampled there.
        """
        if self.rule == "stale":
            return
        keep_newest(self.hidden, self.tokens, slots, positions, hidden, next_tokens)
        for req, n in zip(reqs, lens, strict=True):
            if draft_len(req) is None:
                setattr(req, DRAFT_LEN, n)

    def starts(self, reqs: list[Any], lens: list[int], rows: list[int]) -> list[int]:
        """Where catching up begins in each of `rows`; its length where nothing is pending."""
        return [n if (n := draft_len(reqs[i])) is not None else lens[i] for i in rows]

    def pending_tokens(self, batch: Any, lens: list[int], rows: list[int]) -> PendingTokens:
        """What the ring holds for `rows` of a decode batch of either kind, whose lengths are `lens`."""
        starts = self.starts(batch.reqs, lens, rows)
        counts = [lens[i] - s for i, s in zip(rows, starts, strict=True)]
        device = self.req_to_token.device
        positions = torch.cat([torch.arange(s, s + n) for s, n in zip(starts, counts, strict=True)])
        of_row = torch.repeat_interleave(torch.tensor(rows), torch.tensor(counts))
        positions, of_row = put(positions, device), put(of_row, device)
        rows_on_device = put(torch.tensor(rows), device)
        slots = batch.req_pool_indices[of_row].to(torch.int64)
        column = positions % self.window
        lens_of_rows = torch.tensor([lens[i] for i in rows], dtype=batch.seq_lens_cpu.dtype)
        mrope = self.draft_runner.model_is_mrope
        return PendingTokens(
            starts=starts,
            counts=counts,
            positions=positions,
            input_ids=self.tokens[slots, column],
            hidden_states=self.hidden[slots, column],
            out_cache_loc=self.req_to_token[slots, positions].to(torch.int64),
            req_pool_indices=batch.req_pool_indices[rows_on_device],
            seq_lens=put(lens_of_rows, device).to(batch.seq_lens.dtype),
            seq_lens_cpu=lens_of_rows,
            mrope_positions=mrope_of_text(positions, of_row, batch.multimodal_inputs) if mrope else None,
        )

    def catch_up(self, batch: ModelWorkerBatch, lens: list[int], rows: list[int] | None = None) -> DraftState:
        """One ragged draft extend over every pending token of `rows` (default: all that have any).

        It takes them all at once, however many: `DraftKvRows.shorten` comes before where the draft model allows it.

        Args:
            batch: the decode batch; read only. `batch.seq_lens` must equal `lens`.
            lens: its lengths on the host; the newest committed position is `lens[i] - 1`.

        Returns:
            The draft state of those rows, as after a stock draft extend.
        """
        reqs = batch.reqs or []
        rows = self.pending_rows(reqs) if rows is None else rows
        pending = self.pending_tokens(batch, lens, rows)

        extend = dataclasses.replace(
            batch,
            forward_mode=ForwardMode.EXTEND,
            input_ids=pending.input_ids,
            req_pool_indices=pending.req_pool_indices,
            seq_lens=pending.seq_lens,
            seq_lens_cpu=pending.seq_lens_cpu,
            seq_lens_sum=int(pending.seq_lens_cpu.sum()),
            orig_seq_lens=None,
            out_cache_loc=pending.out_cache_loc,
            extend_num_tokens=len(pending.positions),
            extend_seq_lens=pending.counts,
            extend_prefix_lens=pending.starts,
            extend_logprob_start_lens=pending.counts,
            extend_input_logprob_token_ids=None,
            return_logprob=False,
            top_logprobs_nums=None,
            token_ids_logprobs=None,
            multimodal_inputs=[None] * len(rows),  # what is pending is text
            lora_ids=[batch.lora_ids[i] for i in rows] if batch.lora_ids else None,
            reqs=[reqs[i] for i in rows],
            capture_hidden_mode=CaptureHiddenMode.LAST,
            spec_info=EagleDraftInput(
                hidden_states=pending.hidden_states,
                num_tokens_per_req=1,
                num_tokens_for_logprob_per_req=1,
                capture_hidden_mode=CaptureHiddenMode.LAST,
            ),
        )
        with self.context():
            forward_batch = ForwardBatch.init_new(extend, self.draft_runner)
            forward_batch.mrope_positions = pending.mrope_positions
            out = self.draft_runner.forward(forward_batch).logits_output
        self.extend_forwards += 1
        self.forget([reqs[i] for i in rows])
        probs = torch.softmax(out.next_token_logits, dim=-1)
        topk_p, topk_index = fast_topk(probs, self.topk, dim=-1)
        return DraftState(rows, topk_p, topk_index, out.hidden_states, len(pending.positions))
