"""Paged allocation: what it must guarantee, and the layout it must produce."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from specswitch.engine.cpu.page_alloc import alloc_decode_kernel, alloc_extend_kernel

# (tokens before, tokens to add) of each request
requests = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4)
page_sizes = st.sampled_from([1, 4, 16])


def slot_lists(before: list[int], page_size: int) -> tuple[list[list[int]], int]:
    """Slots of existing sequences on pages 1, 2, ..., and the first free page."""
    page, lists = 1, []
    for count in before:
        lists.append([page * page_size + i for i in range(count)])
        page += -(-count // page_size)
    return lists, page


@given(requests, page_sizes)
def test_sequences_go_on_in_their_last_page_and_then_in_fresh_pages(
    batch: list[tuple[int, int]], page_size: int
) -> None:
    before = [b for b, _ in batch]
    owned, first_free = slot_lists(before, page_size)
    free = torch.arange(first_free, first_free + 200).flip(0)
    pre = torch.tensor(before)
    seq = torch.tensor([b + n for b, n in batch])
    last = torch.tensor([slots[-1] if slots else -1 for slots in owned])
    out = torch.full((int((seq - pre).sum()),), -7)
    alloc_extend_kernel[(len(batch),)](pre, seq, last, free, out, 4, page_size)

    expected_pages = iter(free.tolist())
    for slots, added in zip(owned, out.split([n for _, n in batch]), strict=True):
        sequence = slots + added.tolist()
        for position, slot in enumerate(sequence):
            assert slot % page_size == position % page_size
            if position >= len(slots):
                fresh = position % page_size == 0
                assert slot == (next(expected_pages) * page_size if fresh else sequence[position - 1] + 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), page_sizes)
def test_decode_adds_one_slot_to_each_sequence(seq_lens: list[int], page_size: int) -> None:
    owned, first_free = slot_lists([n - 1 for n in seq_lens], page_size)
    free = torch.arange(first_free, first_free + 10)
    last = torch.tensor([slots[-1] if slots else -1 for slots in owned])
    out = torch.full((len(seq_lens),), -7)
    alloc_decode_kernel[(len(seq_lens),)](torch.tensor(seq_lens), last, free, out, 4, page_size)
    pages = iter(free.tolist())
    wanted = [slots[-1] + 1 if len(slots) % page_size else next(pages) * page_size for slots in owned]
    assert out.tolist() == wanted


def test_too_few_free_pages_leave_the_result_untouched() -> None:
    out = torch.full((20,), -7)
    alloc_extend_kernel[(1,)](
        torch.tensor([0]), torch.tensor([20]), torch.tensor([-1]), torch.tensor([3]), out, 1, 16
    )
    assert out.eq(-7).all()


def test_the_last_page_can_be_filled_when_no_page_is_free() -> None:
    out = torch.full((2,), -7)
    alloc_extend_kernel[(1,)](
        torch.tensor([5]),
        torch.tensor([7]),
        torch.tensor([36]),
        torch.empty(0, dtype=torch.int64),
        out,
        1,
        16,
    )
    assert out.tolist() == [37, 38]
