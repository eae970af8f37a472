"""A head for a given target in one command: what it leaves on disk, what it never trains on, and its time."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from models.draft_tensors import DRAFT_TENSORS
from specswitch.models import pair, reference
from specswitch.models.checkpoint import shape_of
from specswitch.models.pair import sha256
from specswitch.models.train.head.__main__ import main
from specswitch.models.train.head.answers import load_answers
from specswitch.models.train.head.prompts import key, load_prompts
from specswitch.serving import pairing

SECONDS = 20.0
LIMITS = ["--device", "cpu", "--draft-vocab", "1024", "--new-tokens", "24", "--rows", "4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("head") / "out"
    start = time.monotonic()
    main(["--target", str(pair.target_dir()), "--out", str(out), "--seconds", str(SECONDS), *LIMITS])
    return out, time.monotonic() - start


def test_the_time_is_kept(trained: tuple[Path, float]) -> None:
    out, seconds = trained
    # One batch of prompts, of answers and of measuring is made however short the time is.
    assert seconds < 2 * SECONDS
    stages = json.loads((out / "training.json").read_text("utf-8"))["seconds"]
    assert sum(stages.values()) <= seconds
    assert stages["training"] > stages["answers"] > stages["prompts"]


def test_held_out_prompts_are_never_trained_on(trained: tuple[Path, float]) -> None:
    out, _ = trained
    prompts, answers = load_prompts(out / "prompts.jsonl"), load_answers(out / "answers.npz")
    assert prompts.held_out
    assert not {key(t) for t in prompts.held_out} & {key(t) for t in prompts.train}
    tokenizer = Tokenizer.from_file(str(pair.target_dir() / "tokenizer.json"))
    trained_on = [tokenizer.decode(ids.tolist()) for ids in answers.conversations()]
    assert all(any(seen.startswith(text) for text in prompts.train) for seen in trained_on)
    assert not any(seen.startswith(text) for text in prompts.held_out for seen in trained_on)


def test_the_head_is_one_that_a_server_takes_and_that_drafts(trained: tuple[Path, float]) -> None:
    out, _ = trained
    target, draft = (
        json.loads((d / "config.json").read_text("utf-8")) for d in (pair.target_dir(), out / "head")
    )
    assert pairing.pair_problems(target, draft) == []
    assert pairing.weight_problems(draft, out / "head") == []
    models = reference.load(pair.target_dir(), out / "head")
    assert set(models[1].state_dict()) == set(DRAFT_TENSORS)
    assert shape_of(pair.target_dir(), out / "head").aux_layers == (1, 3, 4)
    prompt = list(range(5, 25))
    trace = reference.speculate(models, prompt, 24)
    assert trace.ids == reference.greedy(models, prompt, 24)


def test_the_report_tells_what_was_made_and_what_it_is_worth(trained: tuple[Path, float]) -> None:
    out, _ = trained
    report = json.loads((out / "training.json").read_text("utf-8"))
    assert report["head_sha256"] == sha256(out / "head/model.safetensors")
    assert report["target_sha256"] == {"model.safetensors": sha256(pair.target_dir() / "model.safetensors")}
    assert 0.5 < report["coverage"] <= 1
    assert report["training"]["last_loss"] < report["training"]["first_loss"]
    assert 1 <= report["held_out"]["greedy_accept_first32"] <= 4
    assert report["questions"]["prompts"] == 8
    card = (out / "head/README.md").read_text("utf-8")
    assert report["head_sha256"] in card
    assert f"{report['held_out']['greedy_accept_first32']:.2f}" in card


def test_a_head_can_be_measured_again_without_training(trained: tuple[Path, float], tmp_path: Path) -> None:
    out, _ = trained
    copy = shutil.copytree(out, tmp_path / "copy")
    (copy / "training.json").unlink()
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"text": "Return the number of"}\n', encoding="utf-8")
    common = ["--target", str(pair.target_dir()), "--out", str(copy), "--seconds", "1", *LIMITS]
    main([*common, "--only-measure", "--questions", str(mine)])
    report = json.loads((copy / "training.json").read_text("utf-8"))
    assert report["questions"]["prompts"] == 1
    assert report["head_sha256"] == sha256(out / "head/model.safetensors")
    assert report["held_out"]["greedy_accept_first32"] >= 1


def test_training_goes_on_from_a_head_on_answers_that_are_there(
    trained: tuple[Path, float], tmp_path: Path
) -> None:
    out, _ = trained
    for name in ("prompts.jsonl", "answers.npz"):
        shutil.copy(out / name, tmp_path / name)
    common = ["--target", str(pair.target_dir()), "--out", str(tmp_path), "--seconds", "6", *LIMITS]
    main([*common, "--begin-with", str(out / "head"), "--rate", "0.0002"])
    first, second = (json.loads((d / "training.json").read_text("utf-8")) for d in (out, tmp_path))
    assert (tmp_path / "answers.npz").read_bytes() == (out / "answers.npz").read_bytes()
    assert second["training"]["began_with"] == first["head_sha256"] != second["head_sha256"]
    # It stands where the first training ended, not where it began.
    assert second["training"]["first_loss"] < 0.7 * first["training"]["first_loss"]


def test_nothing_unfinished_is_left(trained: tuple[Path, float]) -> None:
    out, _ = trained
    assert sorted(p.name for p in out.iterdir()) == ["answers.npz", "head", "prompts.jsonl", "training.json"]
    assert sorted(p.name for p in (out / "head").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]


def test_a_target_of_another_kind_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}', encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["--target", str(tmp_path), "--out", str(tmp_path / "out")])
    assert "Qwen3ForCausalLM" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given", ["-5", "0", "nan", "inf", "long"])
def test_a_time_that_is_none_is_refused(
    given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--target", str(tmp_path), "--out", str(tmp_path / "out"), f"--seconds={given}"])
    assert f"argument --seconds: '{given}': give a number of seconds above 0" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_interrupt_ends_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("specswitch.models.train.head.__main__.run", interrupted)
    with pytest.raises(SystemExit, match="1"):
        main(["--target", str(tmp_path), "--out", str(tmp_path / "out")])
    said = f"error: interrupted; prompts and answers that lie in {tmp_path / 'out'} are used again by the same command\n"
    assert capsys.readouterr().err == said
