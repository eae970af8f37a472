"""Slot tables and slot lists against loops over requests."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specswitch.engine.cpu import kv_locs

POOL_ROWS, CONTEXT = 6, 40
lengths = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@dataclass
class Batch:
    rows: torch.Tensor
    table: torch.Tensor
    starts: torch.Tensor
    ends: torch.Tensor


def a_batch(starts: list[int], counts: list[int], dtype: torch.dtype = torch.int64) -> Batch:
    count = min(len(starts), len(counts))
    random = torch.Generator().manual_seed(sum(starts) * 31 + sum(counts))
    begin = torch.tensor(starts[:count], dtype=dtype)
    return Batch(
        rows=torch.randperm(POOL_ROWS, generator=random)[:count],
        table=torch.randint(1, 1000, (POOL_ROWS, CONTEXT), generator=random, dtype=torch.int32),
        starts=begin,
        ends=begin + torch.tensor(counts[:count], dtype=dtype),
    )


@given(lengths, lengths, st.sampled_from([torch.int32, torch.int64]))
def test_writing_slots_into_the_table(starts: list[int], counts: list[int], dtype: torch.dtype) -> None:
    b = a_batch(starts, counts, dtype)
    slots = torch.arange(2000, 2000 + int((b.ends - b.starts).sum()))
    wanted, taken = b.table.clone(), 0
    for row, start, end in zip(b.rows.tolist(), b.starts.tolist(), b.ends.tolist(), strict=True):
        wanted[row, start:end] = slots[taken : taken + end - start].int()
        taken += end - start
    kv_locs.assign_req_to_token_pool_func(b.rows, b.table, b.starts, b.ends, slots, len(b.rows))
    assert b.table.equal(wanted)


@given(lengths, lengths)
def test_reading_slots_from_the_table(starts: list[int], counts: list[int]) -> None:
    b = a_batch(starts, counts)
    wanted = [
        slot
        for row, start, end in zip(b.rows, b.starts, b.ends, strict=True)
        for slot in b.table[row, start:end].tolist()
    ]
    got = kv_locs.assign_extend_cache_locs_func(b.rows, b.table, b.starts, b.ends, len(b.rows), 0, "cpu")
    assert got.tolist() == wanted
    assert got.dtype == torch.int64


@given(lengths, st.integers(1, 3), st.integers(1, 4))
def test_draft_slots_of_v2_are_those_behind_the_sequence(seq_lens: list[int], topk: int, steps: int) -> None:
    b = a_batch(seq_lens, seq_lens)
    out = torch.empty(len(b.rows) * topk * steps, dtype=torch.int64)
    kv_locs.assign_draft_cache_locs_page_size_1[(len(b.rows),)](
        b.rows, b.table, b.starts, out, CONTEXT, topk, steps
    )
    wanted = [
        b.table[row, n : n + topk * steps].tolist() for row, n in zip(b.rows, b.starts.tolist(), strict=True)
    ]
    assert out.view(len(b.rows), -1).tolist() == wanted


def draft_slots_of_v1(b: Batch, slots: torch.Tensor, topk: int, steps: int, page_size: int) -> None:
    unused = torch.empty(())
    kv_locs.assign_draft_cache_locs[(len(b.rows),)](
        b.rows,
        b.table,
        b.starts,
        unused,
        unused,
        slots,
        None,
        None,
        None,
        0,
        CONTEXT,
        topk,
        steps,
        page_size,
        4,
        4,
    )


@given(lengths, st.sampled_from([(1, 1), (3, 1), (1, 16)]), st.integers(1, 4))
def test_draft_slots_of_v1_go_behind_the_sequence(
    seq_lens: list[int], topk_and_page: tuple[int, int], steps: int
) -> None:
    topk, page_size = topk_and_page
    b = a_batch(seq_lens, seq_lens)
    slots = torch.arange(2000, 2000 + len(b.rows) * topk * steps)
    wanted = b.table.clone()
    for i, (row, n) in enumerate(zip(b.rows, b.starts.tolist(), strict=True)):
        wanted[row, n : n + topk * steps] = slots.view(len(b.rows), -1)[i].int()
    draft_slots_of_v1(b, slots, topk, steps, page_size)
    assert b.table.equal(wanted)


def test_trees_over_pages_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="page_size=16 with topk=2"):
        draft_slots_of_v1(a_batch([3], [0]), torch.arange(4), 2, 2, 16)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=5))
def test_positions_and_bonus_tokens_before_the_draft_extend(requests: list[tuple[int, int]]) -> None:
    accepted = torch.tensor([n for _, n in requests], dtype=torch.int32)
    seq_lens = torch.tensor([before + n for before, n in requests])
    tokens = torch.arange(100, 100 + int(accepted.sum()))
    positions = torch.full_like(tokens, -7)
    bonus = torch.full_like(accepted, -7)
    kv_locs.create_extend_after_decode_spec_info[(len(requests),)](
        tokens, seq_lens, accepted, positions, bonus, 8
    )
    assert positions.tolist() == [p for before, n in requests for p in range(before, before + n)]
    assert bonus.tolist() == [t[-1] for t in (list(x) for x in tokens.split(accepted.tolist()))]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_bonus_tokens_of_v2_are_the_last_accepted(accept_lens: list[int]) -> None:
    tokens = torch.arange(len(accept_lens) * 4).view(-1, 4)
    bonus = torch.empty(len(accept_lens), dtype=torch.int32)
    kv_locs.fill_bonus_tokens[(len(accept_lens),)](
        tokens, torch.tensor(accept_lens, dtype=torch.int32), bonus, 4
    )
    assert bonus.tolist() == [int(tokens[b, n - 1]) for b, n in enumerate(accept_lens)]


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 6)), min_size=1, max_size=5),
    st.sampled_from([1, 4, 16]),
)
def test_only_pages_without_a_kept_token_are_freed(requests: list[tuple[int, int]], page_size: int) -> None:
    """A chain of 6: the first `kept` slots stay, the rest goes, except what shares the last kept slot's page."""
    drafted = 6
    mask = torch.tensor([[i >= kept for i in range(drafted)] for _, kept in requests])
    seq_lens = torch.tensor([n for n, _ in requests])
    flat = mask.flatten().clone()
    kv_locs.align_evict_mask_to_page_size[(len(requests),)](seq_lens, flat, page_size, drafted, 8)
    for b, (before, kept) in enumerate(requests):
        last_kept_page = (before + kept - 1) // page_size
        wanted = [i >= kept and (before + i) // page_size != last_kept_page for i in range(drafted)]
        assert flat.view(-1, drafted)[b].tolist() == wanted
