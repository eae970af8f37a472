"""The training code, in miniature on the CPU: its pieces against hand-made cases, and the whole in one command."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from models.draft_tensors import DRAFT_TENSORS
from specswitch.models import reference
from specswitch.models.checkpoint import load_pair
from specswitch.models.network import Shape, Target, init_weights
from specswitch.models.train import corpus, schedule, sources
from specswitch.models.train.__main__ import main
from specswitch.models.train.distill import draft_vocabulary
from specswitch.models.train.evaluate import accept_length
from specswitch.models.train.generate import distinct_share, generate, repeated_ngrams
from specswitch.models.train.unlikelihood import repeat_loss

TOY = Shape(hidden=32, layers=4, heads=2, kv_heads=1, head_dim=16, mlp=64, vocab=64, aux_layers=(0, 1, 2))


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


def test_repeated_4grams_are_marked_where_they_end_the_second_time() -> None:
    ids = torch.tensor([[1, 2, 3, 4, 5, 1, 2, 3, 4, 1], [9, 9, 9, 9, 9, 9, 1, 2, 3, 4]])
    marked = [row.nonzero().flatten().tolist() for row in repeated_ngrams(ids)]
    assert marked == [[8], [4, 5]]
    assert distinct_share(ids) == pytest.approx(1 - (1 / 7 + 2 / 7) / 2)


def test_accept_length_walks_from_newest_token_to_newest_token() -> None:
    # Prompt of 2 tokens; chain of 2. Row i: are guesses for tokens i + 2 and i + 3 right.
    right = torch.tensor([[[0, 0], [1, 0], [0, 1], [1, 1], [0, 0], [0, 0], [0, 0]]], dtype=torch.bool)
    # Token 2 comes with the prefill. From row 1: one right, tokens 3 and 4. From row 3: both right, 5, 6 and 7.
    assert accept_length(right, prompt=2, new=6) == (5, 2)
    assert accept_length(right, prompt=2, new=2) == (2, 1)
    assert accept_length(right, prompt=2, new=1) == (0, 0)


def test_greedy_rows_of_a_mixed_batch_equal_the_reference(target: Target) -> None:
    prompts = torch.randint(0, TOY.vocab, (3, 9), generator=torch.Generator().manual_seed(2))
    ids = generate(target, prompts, 12, torch.tensor([0.0, 1.0, 0.0]))
    for row in (0, 2):
        wanted = reference.greedy((target, None), prompts[row].tolist(), 12)  # type: ignore[arg-type]
        assert ids[row, 9:].tolist() == wanted


def test_sampling_follows_the_temperature(target: Target) -> None:
    prompt = torch.tensor([[3, 1, 4, 1]])
    hidden, _ = target(prompt)
    logits = target.head(hidden[0, -1]) / 2.0
    drawn = generate(target, prompt.expand(20000, 4), 1, torch.full((20000,), 2.0))[:, -1]
    seen = torch.bincount(drawn, minlength=TOY.vocab) / len(drawn)
    assert (seen - logits.softmax(-1)).abs().max() < 0.015


def test_repeat_loss_counts_only_repetition(target: Target) -> None:
    fresh = torch.arange(20)[None]
    looping = torch.tensor([[0, 1, 2, 3] * 5])
    assert repeat_loss(target, fresh, prompt=4) == 0
    assert repeat_loss(target, looping, prompt=4) > 0


def test_draft_vocabulary_takes_the_most_frequent_tokens_in_id_order() -> None:
    text = torch.tensor([[5, 5, 5, 2, 2, 9, 9, 9, 7]])
    d2t = draft_vocabulary(text, Shape(vocab=16, draft_vocab=3))
    assert (d2t + torch.arange(3)).tolist() == [2, 5, 9]


def test_learning_rate_warms_up_holds_and_ends_at_nothing() -> None:
    rates = [schedule.rate(p) for p in (0.0, 0.01, 0.1, 0.35, 0.675, 0.999)]
    assert rates[:2] == [0.02, 0.5]
    assert rates[2:4] == [1.0, 1.0]
    assert rates[4] == pytest.approx(0.5)
    assert rates[5] < 0.01


def test_a_stage_ends_when_its_time_is_up() -> None:
    steps = [progress for _, progress in schedule.clock(0.05)]
    assert len(steps) > 2
    assert steps == sorted(steps)
    assert len(list(schedule.clock(1e-9, least=3))) == 3


def test_files_with_a_licence_of_their_own_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "libpython3.11-stdlib/usr/lib/python3.11"
    padding = "value = 1\n" * 100
    texts = {
        "plain.py": padding,
        "granted.py": "# Permission to use, copy, modify\n" + padding,
        "tarfile.py": padding,
        "encodings/cp1.py": padding,
        "tiny.py": "x\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    assert [d.name for d in sources.documents(tmp_path)] == ["python-lib/plain.py"]


def test_held_out_files_are_never_trained_on() -> None:
    documents = [
        sources.Document(
            f"python-lib/{i}.py", sources.CODE, f"name_{i} = 'word{i} ' * {i}\n" * 200, i % 3 == 0
        )
        for i in range(12)
    ]
    built = corpus.build(documents, vocab=400, prompts_per_kind=5)
    trained = built.tokenizer.decode(built.train.tolist())
    assert all((f"name_{i} =" in trained) is not d.held_out for i, d in enumerate(documents))
    assert {p["source"] for p in built.prompts} <= {d.name for d in documents if d.held_out}
    assert len(built.prompts) == 5


def test_saved_corpus_loads_as_it_was(tmp_path: Path) -> None:
    documents = [
        sources.Document(f"{kind}{i}", kind, f"some words {i}\n" * 300, i == 0)
        for kind in (sources.PROSE, sources.CODE)
        for i in range(3)
    ]
    built = corpus.build(documents, vocab=300)
    corpus.save(built, tmp_path / "corpus.npz")
    loaded = corpus.load(tmp_path / "corpus.npz")
    assert np.array_equal(loaded.train, built.train)
    assert loaded.held_out.keys() == {"prose", "code"}
    assert loaded.prompts == built.prompts
    assert loaded.tokenizer.encode("words 1").ids == built.tokenizer.encode("words 1").ids


def test_one_command_makes_a_pair_and_goes_on_from_it(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    common = ["--miniature", "--device", "cpu", "--minutes", "0.1"]
    again = [*common, "--corpus", str(first / "corpus.npz"), "--begin-with", str(first)]
    main(["--out", str(first), *common])
    main(["--out", str(second), *again])
    main(["--out", str(third), *again, "--only-draft"])
    for out in (first, second, third):
        pair = load_pair(out / "tiny-target", out / "tiny-draft", torch.float32)
        assert set(pair[1].state_dict()) == set(DRAFT_TENSORS)
        prompt = list(range(5, 25))
        assert reference.speculate(pair, prompt, 16).ids == reference.greedy(pair, prompt, 16)
        report = json.loads((out / "training.json").read_text(encoding="utf-8"))
        assert report["held_out"]["code"]["greedy_accept_first32"] >= 1
        assert report["draft_tokens"] > 0

    def weights(part: str) -> list[bytes]:
        return [(out / part / "model.safetensors").read_bytes() for out in (first, second, third)]

    targets, drafts = weights("tiny-target"), weights("tiny-draft")
    assert targets[0] != targets[1]
    assert targets[0] == targets[2]
    assert len(set(drafts)) == 3


def test_a_draft_alone_needs_a_target_to_begin_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "out"), "--only-draft"])
    assert "--begin-with" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_training_lowers_the_loss(target: Target) -> None:
    from specswitch.models.train.target import held_out_loss, new_target, train_target

    stream = torch.arange(4000, dtype=torch.int16) % 7
    fresh = new_target(
        Shape(**{**{f: getattr(TOY, f) for f in TOY.__slots__}, "context": 32}), torch.device("cpu")
    )
    before = held_out_loss(fresh, stream, length=32)
    train_target(fresh, stream, seconds=3, batch=4, log=lambda line: None, fast=False)
    after = held_out_loss(fresh, stream, length=32)
    assert before is not None
    assert after is not None
    assert before == pytest.approx(math.log(TOY.vocab), rel=0.1)
    assert after < before / 2
