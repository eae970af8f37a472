"""Sampled verification: the text it produces has the target's distribution, whatever was drafted."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from engine.cpu import trees
from specswitch.engine.cpu.verify_sampling import sample_by_inverse, tree_speculative_sampling_target_only

VOCABULARY = 4


def verify(
    d: trees.Drafts,
    candidates: torch.Tensor,
    probs: torch.Tensor,
    random: torch.Generator,
    **thresholds: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run the op; returns predicts [B * N], accept_index [B, D + 1], accepted drafts [B]."""
    batch = len(candidates)
    tree = trees.slow_tree(d)
    predicts = torch.full((batch * d.nodes + 1,), -77, dtype=torch.int32)
    accept_index = torch.full((batch, d.depth + 1), -1, dtype=torch.int32)
    accepted = torch.empty(batch, dtype=torch.int32)
    tree_speculative_sampling_target_only(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accepted,
        candidates=candidates,
        retrive_index=tree.index,
        retrive_next_token=tree.next_token,
        retrive_next_sibling=tree.next_sibling,
        uniform_samples=torch.rand(candidates.shape, generator=random),
        uniform_samples_for_final_sampling=torch.rand(batch, generator=random),
        target_probs=probs,
        draft_probs=torch.zeros_like(probs),
        **thresholds,
    )
    return predicts, accept_index, accepted


def repeated(d: trees.Drafts, times: int) -> trees.Drafts:
    """The first request's tree, many times over."""
    return trees.Drafts(
        d.topk,
        d.depth,
        d.nodes,
        d.selected[:1].expand(times, -1),
        d.parent_list[:1].expand(times, -1),
        d.seq_lens[:1].expand(times),
    )


def table_model(seed: int) -> torch.Tensor:
    """A target whose next token depends on the last token only: [V, V], one row with a zero in it."""
    table = torch.rand(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed)) + 0.05
    table[0, 1] = 0.0
    return table / table.sum(1, keepdim=True)


CHAIN = trees.Drafts(1, 2, 3, torch.tensor([[0, 1]]), torch.tensor([[-1, 0]]), torch.tensor([5]))
# topk 2, depth 2: both first tokens, and children 2 and 3 of draft index 0, 4 of draft index 1.
BUSHY = trees.Drafts(2, 2, 6, torch.tensor([[0, 1, 2, 3, 4]]), torch.tensor([[-1, 0, 1]]), torch.tensor([5]))
# As above without draft index 1: index 4 is an orphan.
PRUNED = trees.Drafts(2, 2, 4, torch.tensor([[0, 2, 4]]), torch.tensor([[-1, 0, 1]]), torch.tensor([5]))


@pytest.mark.parametrize(
    ("tree", "tokens"),
    [
        pytest.param(CHAIN, [0, 2, 3], id="chain"),
        pytest.param(CHAIN, [0, 1, 3], id="chain that begins with an impossible token"),
        pytest.param(BUSHY, [2, 0, 3, 1, 2, 1], id="tree"),
        pytest.param(PRUNED, [3, 1, 2, 0], id="tree with an orphan"),
    ],
)
def test_first_and_second_token_follow_the_target(tree: trees.Drafts, tokens: list[int]) -> None:
    """Chi-squared over the first token, and over the second given the first, 40 000 runs of the op.

    Where the first token was not drafted the op emits just one; the second is then drawn by a plain step.
    """
    runs, random = 40_000, torch.Generator().manual_seed(11)
    table = table_model(3)
    candidates = torch.tensor(tokens).expand(runs, -1)
    probs = table[candidates]
    predicts, accept_index, accepted = verify(repeated(tree, runs), candidates, probs, random)

    first = predicts[accept_index[:, 0].long()].long()
    plain = torch.multinomial(table[first], 1, generator=random).squeeze(1)
    second = torch.where(accepted > 0, predicts[accept_index[:, 1].clamp(min=0).long()].long(), plain)

    counts = torch.zeros(VOCABULARY, VOCABULARY).index_put_(
        (first, second), torch.ones(runs), accumulate=True
    )
    expected = runs * table[tokens[0]][:, None] * table
    possible = expected > 0
    assert counts[~possible].sum() == 0
    assert stats.chisquare(counts[possible], expected[possible], sum_check=False).pvalue > 1e-3
    assert 0 < accepted.sum() < runs * tree.depth or tokens[:2] == [0, 1]


@given(trees.drafts(), st.integers(0, 2**31))
def test_emits_the_accepted_drafts_and_one_token_more(d: trees.Drafts, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    batch = len(d.seq_lens)
    candidates = torch.randint(VOCABULARY, (batch, d.nodes), generator=random)
    probs = torch.rand(batch, d.nodes, VOCABULARY, generator=random).softmax(-1)
    predicts, accept_index, accepted = verify(d, candidates, probs, random)
    for b in range(batch):
        rows = accept_index[b, : accepted[b] + 1].tolist()
        path = [r - b * d.nodes for r in rows]
        assert path[0] == 0
        assert accept_index[b, accepted[b] + 1 :].eq(-1).all()
        for parent, child in pairwise(path):
            assert child in trees.children_of(d, b, parent)
            assert predicts[b * d.nodes + parent] == candidates[b, child]
        assert 0 <= predicts[rows[-1]] < VOCABULARY
        if accepted[b] < d.depth:
            rejected = [int(candidates[b, n]) for n in trees.children_of(d, b, path[-1])]
            assert predicts[rows[-1]] not in rejected or len(set(rejected)) == VOCABULARY


@given(trees.drafts(), st.integers(0, 2**31))
def test_a_certain_target_is_followed_to_the_letter(d: trees.Drafts, seed: int) -> None:
    """One-hot target distributions (temperature 0 in a sampled batch) give the greedy answer."""
    random = torch.Generator().manual_seed(seed)
    batch = len(d.seq_lens)
    candidates = torch.stack(
        [torch.randperm(max(d.nodes, VOCABULARY), generator=random)[: d.nodes] for _ in range(batch)]
    )
    argmax = torch.randint(max(d.nodes, VOCABULARY), (batch, d.nodes), generator=random)
    probs = torch.nn.functional.one_hot(argmax, max(d.nodes, VOCABULARY)).float()
    predicts, accept_index, accepted = verify(d, candidates, probs, random)
    for b in range(batch):
        for row in accept_index[b, : accepted[b] + 1].tolist():
            assert predicts[row] == argmax.flatten()[row]


def test_a_low_single_threshold_accepts_every_likely_enough_draft() -> None:
    table = torch.full((VOCABULARY, VOCABULARY), 1 / VOCABULARY)
    candidates = torch.tensor([[0, 2, 3]]).expand(200, -1)
    _, _, accepted = verify(
        repeated(CHAIN, 200),
        candidates,
        table[candidates],
        torch.Generator().manual_seed(0),
        threshold_single=0.2,
    )
    assert accepted.eq(2).all()


def test_a_low_accumulated_threshold_widens_the_slices() -> None:
    table = torch.full((VOCABULARY, VOCABULARY), 1 / VOCABULARY)
    candidates = torch.tensor([[0, 2, 3]]).expand(4000, -1)
    random = torch.Generator().manual_seed(0)
    _, _, accepted = verify(repeated(CHAIN, 4000), candidates, table[candidates], random, threshold_acc=0.5)
    assert (accepted > 0).float().mean().item() == pytest.approx(0.5, abs=0.03)


def test_inverse_sampling_never_draws_an_impossible_index() -> None:
    weights = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]]).expand(5, -1)
    coins = torch.tensor([0.0, 0.29, 0.31, 0.99, 1 - 2**-24])
    assert sample_by_inverse(weights, coins).tolist() == [1, 1, 3, 3, 3]
