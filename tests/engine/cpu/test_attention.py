"""Attention in every forward mode against a loop over single query tokens, in double precision."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cpu import trees
from engine.harness import in_process
from specswitch.engine.cpu.tree import build_tree_kernel_efficient

pytestmark = pytest.mark.engine

unhurried = settings(deadline=None, database=None)  # in a child the session's profile is not loaded

SLOTS, POOL_ROWS, CONTEXT, HEAD_DIM = 400, 6, 64, 8


class Pool:
    """K and V of one layer, as the engine's pool hands them out."""

    def __init__(self, kv_heads: int, random: torch.Generator, dtype: torch.dtype) -> None:
        self.k, self.v = torch.randn(2, SLOTS, kv_heads, HEAD_DIM, generator=random).to(dtype)

    def set_kv_buffer(self, layer: object, loc: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        self.k[loc] = k.view(-1, *self.k.shape[1:]).to(self.k.dtype)
        self.v[loc] = v.view(-1, *self.v.shape[1:]).to(self.v.dtype)

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        return self.k

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        return self.v


@dataclass
class World:
    """A pool, a table of distinct slots, and a layer."""

    pool: Pool
    table: torch.Tensor
    layer: SimpleNamespace
    random: torch.Generator

    @classmethod
    def make(cls, seed: int, heads: tuple[int, int], kv_dtype: torch.dtype = torch.float32) -> World:
        from sglang.srt.layers.radix_attention import AttentionType

        random = torch.Generator().manual_seed(seed)
        layer = SimpleNamespace(
            layer_id=0,
            tp_q_head_num=heads[0],
            tp_k_head_num=heads[1],
            qk_head_dim=HEAD_DIM,
            v_head_dim=HEAD_DIM,
            scaling=HEAD_DIM**-0.5,
            sliding_window_size=-1,
            logit_cap=0.0,
            is_cross_attention=False,
            attn_type=AttentionType.DECODER,
        )
        table = torch.randperm(SLOTS, generator=random)[: POOL_ROWS * CONTEXT].view(POOL_ROWS, CONTEXT).int()
        return cls(Pool(heads[1], random, kv_dtype), table, layer, random)

    def rows(self, count: int) -> torch.Tensor:
        return torch.randperm(POOL_ROWS, generator=self.random)[:count]

    def runner(self) -> SimpleNamespace:
        return SimpleNamespace(req_to_token_pool=SimpleNamespace(req_to_token=self.table))

    def tokens(self, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        sizes = (self.layer.tp_q_head_num, self.layer.tp_k_head_num, self.layer.tp_k_head_num)
        q, k, v = (torch.randn(count, n * HEAD_DIM, generator=self.random) for n in sizes)
        return q, k, v

    def expected(self, q: torch.Tensor, visible: list[torch.Tensor]) -> torch.Tensor:
        """One softmax per query token and head over the slots it may see."""
        layer, out = self.layer, []
        for row, slots in zip(q.double(), visible, strict=True):
            for head in range(layer.tp_q_head_num):
                kv_head = head // (layer.tp_q_head_num // layer.tp_k_head_num)
                one = row.view(-1, HEAD_DIM)[head]
                keys, values = self.pool.k[slots, kv_head].double(), self.pool.v[slots, kv_head].double()
                out.append(((keys @ one) * layer.scaling).softmax(0) @ values)
        return torch.stack(out).view(len(q), -1).float()

    def check(self, backend, batch: SimpleNamespace, visible: list[torch.Tensor], q_k_v=None) -> None:
        q, k, v = q_k_v or self.tokens(len(visible))
        batch.token_to_kv_pool = self.pool
        got = backend.forward(q, k, v, self.layer, batch)
        tolerance = 1e-5 if self.pool.k.dtype == torch.float32 else 2e-2
        torch.testing.assert_close(got, self.expected(q, visible), atol=tolerance, rtol=tolerance)


def run_mode(mode_name: str, world: World, batch: SimpleNamespace, visible: list[torch.Tensor]) -> None:
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    from specswitch.engine.cpu.attention import CpuAttentionBackend

    batch.forward_mode = ForwardMode[mode_name]
    backend = CpuAttentionBackend(world.runner())
    backend.init_forward_metadata(batch)
    world.check(backend, batch, visible)


seeds = st.integers(0, 2**31)
head_counts = st.sampled_from([(4, 4), (4, 2), (6, 1)])
# (tokens in the cache, new tokens) of each request
extends = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), min_size=1, max_size=4)


def extend_case(mode: str) -> None:
    """Each request's new tokens see the cache, the new tokens before them, and themselves."""

    @unhurried
    @given(seeds, head_counts, extends, st.sampled_from([torch.float32, torch.bfloat16]))
    def case(
        seed: int, heads: tuple[int, int], requests: list[tuple[int, int]], kv_dtype: torch.dtype
    ) -> None:
        if mode == "DRAFT_EXTEND_V2":
            requests = [(before, requests[0][1]) for before, _ in requests]
        world = World.make(seed, heads, kv_dtype)
        rows = world.rows(len(requests))
        visible = [
            world.table[row, : before + i + 1].long()
            for row, (before, new) in zip(rows, requests, strict=True)
            for i in range(new)
        ]
        batch = SimpleNamespace(
            req_pool_indices=rows,
            seq_lens=torch.tensor([before + new for before, new in requests]),
            extend_seq_lens=torch.tensor([new for _, new in requests], dtype=torch.int32),
            extend_prefix_lens=torch.tensor([99]),  # stale, as v1 leaves it
            out_cache_loc=torch.stack([slots[-1] for slots in visible]),
            spec_info=None,
        )
        run_mode(mode, world, batch, visible)

    case()


def decode_case() -> None:
    @unhurried
    @given(seeds, head_counts, st.lists(st.integers(1, 30), min_size=1, max_size=4))
    def case(seed: int, heads: tuple[int, int], seq_lens: list[int]) -> None:
        world = World.make(seed, heads)
        rows = world.rows(len(seq_lens))
        visible = [world.table[row, :n].long() for row, n in zip(rows, seq_lens, strict=True)]
        batch = SimpleNamespace(
            req_pool_indices=rows,
            seq_lens=torch.tensor(seq_lens),
            out_cache_loc=torch.stack([slots[-1] for slots in visible]),
            spec_info=None,
        )
        run_mode("DECODE", world, batch, visible)

    case()


def verify_case() -> None:
    """Every node sees the sequence, its ancestors and itself; chains and trees, orphans included."""

    @unhurried
    @given(seeds, head_counts, trees.drafts())
    def case(seed: int, heads: tuple[int, int], d: trees.Drafts) -> None:
        world = World.make(seed, heads)
        rows = world.rows(len(d.seq_lens))
        total = int(d.seq_lens.sum()) * d.nodes + len(rows) * d.nodes**2
        mask = torch.ones(total + 5, dtype=torch.bool)  # the engine may hand over a longer buffer
        links = torch.full((3, len(rows), d.nodes), -1)
        positions = torch.empty(len(rows) * d.nodes, dtype=torch.int64)
        build_tree_kernel_efficient(
            d.parent_list, d.selected, d.seq_lens, mask, positions, *links, d.topk, d.depth, d.nodes, 0
        )
        visible, new = [], []
        for b, (row, n) in enumerate(zip(rows, d.seq_lens.tolist(), strict=True)):
            new.append(world.table[row, n : n + d.nodes])
            for node in range(d.nodes):
                # What the engine builds for topk 1 is a chain by construction, and may be treated as one.
                above = list(range(node)) if d.topk == 1 else trees.ancestors_of(d, b, node)
                columns = [*range(n), *(n + m for m in above if m != node), n + node]
                visible.append(world.table[row, columns].long())
        batch = SimpleNamespace(
            req_pool_indices=rows,
            seq_lens=d.seq_lens,
            out_cache_loc=torch.cat(new).long(),
            spec_info=SimpleNamespace(draft_token_num=d.nodes, topk=d.topk, custom_mask=mask),
        )
        run_mode("TARGET_VERIFY", world, batch, visible)

    case()


def drafting_case() -> None:
    """Branch k in step i sees the sequence and tokens 0..i of its own branch."""
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    from specswitch.engine.cpu.draft_attention import CpuMultiStepDraftBackend

    @unhurried
    @given(
        seeds,
        head_counts,
        st.lists(st.integers(1, 20), min_size=1, max_size=4),
        st.integers(1, 4),
        st.integers(2, 5),
    )
    def case(seed: int, heads: tuple[int, int], seq_lens: list[int], topk: int, steps: int) -> None:
        world = World.make(seed, heads)
        rows = world.rows(len(seq_lens))
        multi = CpuMultiStepDraftBackend(world.runner(), topk, steps)
        batch = SimpleNamespace(
            forward_mode=ForwardMode.DECODE,
            req_pool_indices=rows,
            seq_lens=torch.tensor(seq_lens),
            spec_info=None,
        )
        multi.init_forward_metadata(batch)
        assert len(multi.attn_backends) == steps - 1
        for step, backend in enumerate(multi.attn_backends):
            visible = []
            for row, n in zip(rows, seq_lens, strict=True):
                for branch in range(topk):
                    first = n + branch * steps
                    visible.append(world.table[row, [*range(n), *range(first, first + step + 1)]].long())
            batch.out_cache_loc = torch.stack([slots[-1] for slots in visible])
            world.check(backend, batch, visible)

    case()


@pytest.mark.parametrize("mode", ["EXTEND", "MIXED", "DRAFT_EXTEND", "DRAFT_EXTEND_V2"])
def test_extend_modes_are_causal_behind_the_cache(mode: str) -> None:
    in_process(extend_case, mode)


def test_decode_sees_the_whole_sequence() -> None:
    in_process(decode_case)


def test_verification_follows_the_tree() -> None:
    in_process(verify_case)


def test_drafting_sees_the_sequence_and_its_own_branch() -> None:
    in_process(drafting_case)


def refusals() -> list[str]:
    from specswitch.engine.cpu.attention import CpuAttentionBackend

    messages = []
    for change in ({"sliding_window_size": 16}, {"logit_cap": 30.0}, {"is_cross_attention": True}):
        world = World.make(0, (4, 4))
        vars(world.layer).update(change)
        try:
            CpuAttentionBackend(world.runner()).forward_extend(
                *world.tokens(1), world.layer, SimpleNamespace()
            )
        except NotImplementedError as error:
            messages.append(str(error))
    return messages


def test_layers_it_would_get_wrong_are_refused() -> None:
    window, cap, cross = in_process(refusals)
    assert "sliding window of 16" in window
    assert "logit_cap=30.0" in cap
    assert "cross=True" in cross
