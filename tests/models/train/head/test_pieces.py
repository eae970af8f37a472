"""The pieces that train a head for a given target, against hand-made cases and against the plain reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specswitch.models import reference
from specswitch.models.network import Draft, Shape, Target, init_weights
from specswitch.models.train.draft import chain_logits, new_draft
from specswitch.models.train.head import acceptance, fit, prompts
from specswitch.models.train.head.answers import Answers, load_answers, save_answers, write_answers
from specswitch.models.train.head.batches import Batch, batches, collate
from specswitch.models.train.head.decode import answer
from specswitch.models.train.head.fit import channel_sizes, folded, train_head
from specswitch.models.train.head.fit import loss_of as fit_loss
from specswitch.models.train.head.sizes import Sizes, halving

TOY = Shape(hidden=32, layers=4, heads=2, kv_heads=1, head_dim=16, mlp=64, vocab=64, draft_vocab=48,
            aux_layers=(0, 1, 2))  # fmt: skip
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def target() -> Target:
    target = Target(TOY)
    init_weights(target, TOY, seed=1)
    with torch.no_grad():
        target.model.embed_tokens.weight.mul_(20)  # else every token is as likely
    return target.requires_grad_(False)


def some_prompts(*lengths: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, TOY.vocab, (n,), generator=generator).tolist() for n in lengths]


def quiet(line: str) -> None:
    pass


def test_prompts_of_different_lengths_are_answered_as_if_alone(target: Target) -> None:
    asked = some_prompts(5, 11, 8)
    ids, lengths = answer(target, asked, 24, torch.zeros(3))
    assert lengths.tolist() == [24, 24, 24]
    for row, prompt in zip(ids.tolist(), asked, strict=True):
        assert row[: len(prompt)] == prompt
        assert row[len(prompt) :] == reference.greedy((target, None), prompt, 24 - len(prompt))  # type: ignore[arg-type]


def test_an_answer_ends_with_its_end_token_and_others_go_on_undisturbed(target: Target) -> None:
    # Rows that end are dropped from the batch on the way: the rest must not notice.
    asked = some_prompts(*range(4, 24))
    alone = [reference.greedy((target, None), p, 120 - len(p)) for p in asked]  # type: ignore[arg-type]
    end = alone[0][3]
    ids, lengths = answer(target, asked, 120, torch.zeros(20), frozenset({end}))
    for row, length, prompt, wanted in zip(ids.tolist(), lengths.tolist(), asked, alone, strict=True):
        stop = wanted.index(end) + 1 if end in wanted else len(wanted)
        assert length == len(prompt) + stop
        assert row[len(prompt) : length] == wanted[:stop]
    assert 0 < sum(n < 120 for n in lengths.tolist()) < 20


def test_an_end_token_inside_the_prompt_ends_nothing(target: Target) -> None:
    short, long = some_prompts(4, 12)
    wanted = reference.greedy((target, None), long, 8)  # type: ignore[arg-type]
    end = next(t for t in long if t not in wanted)
    ids, lengths = answer(target, [short, long], 20, torch.zeros(2), frozenset({end}))
    assert lengths[1] == 20
    assert ids[1, 12:].tolist() == wanted


def test_a_prompt_without_room_for_an_answer_is_refused(target: Target) -> None:
    with pytest.raises(ValueError, match="12 tokens leaves no room in 12"):
        answer(target, some_prompts(4, 12), 12, torch.zeros(2))


def test_answers_have_the_asked_length_whatever_the_prompts(target: Target, tmp_path: Path) -> None:
    asked = some_prompts(4, 20, 9)
    made = write_answers(target, asked, frozenset(), CPU, rows=2, seconds=1e-9, log=quiet, new_tokens=16)
    assert (made.length - made.prompt).tolist() == [16] * len(made)
    assert all(c[:p].tolist() in asked for c, p in zip(made.conversations(), made.prompt, strict=True))
    save_answers(made, tmp_path / "answers.npz")
    loaded = load_answers(tmp_path / "answers.npz")
    assert [c.tolist() for c in loaded.conversations()] == [c.tolist() for c in made.conversations()]
    assert len(loaded.answer_ids()) == 16 * len(made)


def test_every_prompt_is_answered_at_every_temperature_in_turn(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specswitch.models.train.head import answers as module

    seen: set[tuple[int, float]] = set()
    answered = module._answered

    def watch(
        target: Target, asked: list[list[int]], heat: torch.Tensor, *more: object, **named: object
    ) -> Answers:
        seen.update((len(p), round(float(t), 1)) for p, t in zip(asked, heat, strict=True))
        return answered(target, asked, heat, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_answered", watch)
    monkeypatch.setattr(module, "MOST_TOKENS", 3 * 5 * 4)
    made = write_answers(target, some_prompts(4, 5, 6, 7, 8), frozenset(), CPU, 2, 60, quiet, new_tokens=4)
    assert seen == {(length, t) for length in range(4, 9) for t in (0.0, 0.7, 1.0)}
    assert len(made) == 15


def test_work_that_does_not_fit_is_tried_with_half_the_rows() -> None:
    tried = []

    def work(rows: int) -> str:
        tried.append(rows)
        if rows > 3:
            raise torch.OutOfMemoryError("full")
        return "done"

    assert halving(work, 12) == ("done", 3)
    assert tried == [12, 6, 3]
    with pytest.raises(torch.OutOfMemoryError):
        halving(lambda rows: work(99), 2)


def test_only_answer_tokens_behind_the_first_are_guessed() -> None:
    batch = collate([np.arange(10), np.arange(20, 33)], np.array([6, 8]), steps=4)
    guessed = batch.ids[batch.row, batch.token].tolist()
    assert guessed == [7, 8, 9, 29, 30, 31, 32]
    assert batch.ids.shape[1] >= 13 + 4
    parts = list(batch.parts(1))
    assert [p.ids[p.row, p.token].tolist() for p in parts] == [[7, 8, 9], [29, 30, 31, 32]]


def test_a_very_short_prompt_has_no_guess_without_a_state() -> None:
    batch = collate([np.arange(9)], np.array([1]), steps=4)
    assert int(batch.token.min()) - 4 - 1 >= 0


def test_an_epoch_holds_every_conversation_once() -> None:
    length = np.array([8 + i % 7 for i in range(50)], dtype=np.int32)
    ids = np.concatenate([np.full(n, i) for i, n in enumerate(length)])
    source = batches(Answers(ids, np.full(50, 5, np.int32), length), rows=4, steps=4, seed=0)
    seen = [first for _ in range(13) for first in next(source).ids[:, 0].tolist()]
    assert sorted(seen) == list(range(50))


def test_the_checkpoint_reads_undivided_states(target: Target) -> None:
    draft = Draft(TOY)
    init_weights(draft, TOY, seed=2)
    ids = torch.randint(0, TOY.vocab, (2, 16))
    sizes = channel_sizes(target, [Batch(ids, torch.tensor([0, 1]), torch.tensor([3, 4]))])
    _, aux = target(ids)
    embeds = target.model.embed_tokens(ids)
    for ours, theirs in zip(
        chain_logits(draft, embeds, aux / sizes, 3),
        chain_logits(folded(draft, sizes), embeds, aux, 3),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_training_lowers_the_loss_and_acceptance_is_that_of_the_reference(target: Target) -> None:
    asked = some_prompts(*range(6, 26))
    made = write_answers(target, asked, frozenset(), CPU, 20, 1e-9, quiet, new_tokens=40)
    first_ids = torch.zeros(TOY.draft_vocab, dtype=torch.int64)
    draft, figures = train_head(target, made, first_ids, 8, 4.0, lambda unfinished: None, quiet)
    assert figures["last_loss"] < 0.7 * figures["first_loss"]
    draft.requires_grad_(False)
    found = acceptance.measure(target, draft, asked[:4], frozenset(), Sizes(4, 4, 4), 1e-9)
    traces = [reference.speculate((target, draft), p, 32) for p in asked[:4]]
    steps = [len(t.accepted) for t in traces]
    accepted = [sum(t.accepted) for t in traces]
    assert found["prompts"] == 4
    assert found["greedy_accept_first32"] == pytest.approx(1 + sum(accepted) / sum(steps), abs=1e-3)


def test_everything_runs_in_half_precision_as_on_a_gpu(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "half_precision", lambda device: torch.autocast("cpu", torch.bfloat16))
    target.to(torch.bfloat16)
    asked = some_prompts(*range(6, 26))
    made = write_answers(target, asked, frozenset(), CPU, 20, 1e-9, quiet, new_tokens=40)
    first_ids = torch.zeros(TOY.draft_vocab, dtype=torch.int64)
    draft, figures = train_head(target, made, first_ids, 8, 4.0, lambda unfinished: None, quiet)
    assert {p.dtype for p in draft.parameters()} == {torch.float32}
    assert figures["last_loss"] < 0.7 * figures["first_loss"]
    found = acceptance.measure(target, draft.to(torch.bfloat16), asked, frozenset(), Sizes(4, 4, 20), 1e-9)
    assert 1 <= found["greedy_accept_first32"] <= 4


def test_a_training_batch_that_does_not_fit_is_split_and_the_gradients_stay(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = write_answers(target, some_prompts(*range(6, 14)), frozenset(), CPU, 8, 1e-9, quiet, new_tokens=12)
    batch = next(batches(made, 8, 4, seed=0))
    # The whole vocabulary: no token is left out of the mean, so that parts weigh exactly by their tokens.
    target.model.shape = replace(TOY, draft_vocab=TOY.vocab)
    draft = new_draft(target, torch.zeros(TOY.vocab, dtype=torch.int64))
    everything = torch.ones(3 * TOY.hidden)
    known = torch.arange(TOY.vocab)
    gradients = []
    for limit in (8, 3):

        def loss_of(*given: Any, limit: int = limit) -> tuple[torch.Tensor, torch.Tensor]:
            if len(given[3].ids) > limit:
                raise torch.OutOfMemoryError("full")
            return fit_loss(*given)

        monkeypatch.setattr(fit, "loss_of", loss_of)
        draft.zero_grad()
        loss, _, rows = fit._backward(draft, target, everything, batch, known, 8)
        assert rows == (8 if limit == 8 else 2)
        gradients.append((loss, draft.fc.weight.grad.clone()))
    torch.testing.assert_close(gradients[0][0], gradients[1][0])
    torch.testing.assert_close(gradients[0][1], gradients[1][1], rtol=1e-3, atol=1e-4)


def test_acceptance_counts_an_answer_up_to_its_end_only(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def watch(right: torch.Tensor, prompt: int, new: int) -> tuple[int, int]:
        counted.append(new)
        return 1, 1

    monkeypatch.setattr(acceptance, "accept_length", watch)
    draft = Draft(TOY).requires_grad_(False)
    prompt = some_prompts(6)[0]
    text = reference.greedy((target, None), prompt, 140)  # type: ignore[arg-type]
    end = text[9]
    acceptance.measure(target, draft, [prompt], frozenset({end}), Sizes(4, 4, 2), 1e-9)
    assert counted[:2] == [text.index(end) + 1] * 2


def test_prompts_that_begin_alike_are_one() -> None:
    texts = [
        "How do I bake bread at home, quickly?",
        "how do I bake BREAD at home quickly!",
        "How do I bake bread?",
    ]
    assert prompts.distinct(texts) == [texts[0], texts[2]]


def test_a_users_own_prompts_are_made_distinct_and_split(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(f'{{"text": "question number {i % 30}"}}\n' for i in range(60)), encoding="utf-8")
    parts = prompts.load_prompts(file)
    assert len(parts.train) + len(parts.held_out) == 30
    assert len(parts.held_out) == 3
    assert not set(parts.train) & set(parts.held_out)
    prompts.save_prompts(parts, file)
    assert prompts.load_prompts(file) == parts


def test_a_target_that_writes_nothing_usable_is_said_so(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "_turns", lambda *given: ["the same prompt again"] * 4)
    with pytest.raises(prompts.UnusableTextError, match=r"of 4 prompts .* 1 are usable"):
        prompts.write_prompts(target, None, CPU, 4, 1e-9, quiet)  # type: ignore[arg-type]


def test_an_untied_head_is_used(target: Target) -> None:
    untied = Target(replace(TOY, tied=False))
    init_weights(untied, TOY, seed=5)
    hidden = torch.randn(3, TOY.hidden)
    assert torch.equal(untied.head(hidden), hidden @ untied.lm_head.weight.T)
    assert torch.equal(target.head(hidden), hidden @ target.model.embed_tokens.weight.T)
