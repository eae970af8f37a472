"""What attention has to know about a batch, computed once per forward and shared by all layers.

Two shapes of batch: a *padded* plan gives every request the same number of query rows and one padded list of KV
slots (decode, verification, drafting, draft extend: few rows each); a *ragged* plan keeps one entry per request
(prefill: many rows each, where padding would cost more than a loop).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from specswitch.engine.cpu.ragged import exclusive_cumsum


@dataclass
class PaddedPlan:
    """B requests with Q query rows and L KV slots each.

    slots: [B, L] int, padding points anywhere valid; allowed: [B, Q, L] bool, every row has at least one True;
    pick: where the rows of the flat token batch go, None if they fill [B, Q] exactly, else [B, Q] int64 index into
    the tokens (padding repeats some token) and keep: [B, Q] bool, True for real rows.
    """

    slots: torch.Tensor
    allowed: torch.Tensor
    pick: torch.Tensor | None = None
    keep: torch.Tensor | None = None
    _bias: dict[tuple[int, torch.dtype], torch.Tensor] = field(default_factory=dict)

    def bias(self, group: int, dtype: torch.dtype) -> torch.Tensor:
        """Additive mask [B, 1, Q * group, L]; `group` query heads that share a KV head stand next to each other."""
        key = (group, dtype)
        if key not in self._bias:
            zero_or_inf = torch.zeros(self.allowed.shape, dtype=dtype).masked_fill_(~self.allowed, -torch.inf)
            self._bias[key] = zero_or_inf.repeat_interleave(group, dim=1).unsqueeze(1)
        return self._bias[key]


@dataclass
class RaggedRequest:
    """One request of a ragged plan: query rows [start, end) of the token batch over its KV slots [L].

    allowed: [end - start, L] bool, or None where plain causal order from the first slot on is meant.
    """

    start: int
    end: int
    slots: torch.Tensor
    allowed: torch.Tensor | None


Plan = PaddedPlan | list[RaggedRequest]


def plan_decode(req_to_token: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor) -> PaddedPlan:
    """One query per request over its whole sequence. rows, seq_lens: [B]; the query is the last token."""
    columns = torch.arange(int(seq_lens.max()))
    return PaddedPlan(req_to_token[rows, : len(columns)], (columns < seq_lens[:, None]).unsqueeze(1))


def plan_last_tokens(
    req_to_token: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor, count: int
) -> PaddedPlan:
    """The last `count` tokens of every sequence as queries, in causal order. seq_lens: [B], queries included."""
    columns = torch.arange(int(seq_lens.max()))
    visible = (seq_lens - count + 1)[:, None] + torch.arange(count)
    return PaddedPlan(req_to_token[rows, : len(columns)], columns < visible[:, :, None])


def plan_few_last_tokens(
    req_to_token: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor, counts: torch.Tensor
) -> PaddedPlan:
    """The last counts[b] tokens of sequence b as queries, in causal order, padded to the largest count."""
    query = torch.arange(int(counts.max()))
    columns = torch.arange(int(seq_lens.max()))
    keep = query < counts[:, None]
    start = exclusive_cumsum(counts.long())
    visible = torch.minimum((seq_lens - counts + 1)[:, None] + query, seq_lens[:, None])
    return PaddedPlan(
        slots=req_to_token[rows, : len(columns)],
        allowed=columns < visible[:, :, None],
        pick=start[:, None] + torch.minimum(query, counts[:, None] - 1),
        keep=keep,
    )


def plan_tree(
    req_to_token: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor, count: int, mask: torch.Tensor
) -> PaddedPlan:
    """`count` tree nodes per request behind a prefix of seq_lens[b] tokens, visibility given by a flat mask.

    mask: bool, per request [count, seq_lens[b] + count], end to end; entries beyond are ignored.
    """
    width = seq_lens.long() + count
    columns = torch.arange(int(width.max()))
    start = exclusive_cumsum(width * count)[:, None] + torch.arange(count) * width[:, None]
    valid = (columns < width[:, None]).unsqueeze(1)
    flat = start[:, :, None] + torch.minimum(columns, width[:, None] - 1).unsqueeze(1)
    return PaddedPlan(req_to_token[rows, : len(columns)], mask[flat] & valid)


def plan_extend(
    req_to_token: torch.Tensor, rows: torch.Tensor, seq_lens: list[int], counts: list[int]
) -> list[RaggedRequest]:
    """Prefill: the last counts[b] tokens of sequence b as queries, in causal order."""
    plan = []
    start = 0
    for row, length, count in zip(rows.tolist(), seq_lens, counts, strict=True):
        allowed = None
        if count != length:
            allowed = torch.arange(length) <= torch.arange(length - count, length)[:, None]
        plan.append(RaggedRequest(start, start + count, req_to_token[row, :length], allowed))
        start += count
    return plan
