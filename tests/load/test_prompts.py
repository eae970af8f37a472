"""Prompts have exactly the planned length, come from real text, and repeat by seed."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from specswitch.config import Arm, Point, ServerConfig, Workload
from specswitch.load.prompts import load_prompts

TEXTS = [
    " ".join(f"{word}{i}" for i in range(200))
    for word in ("alpha", "beta", "gamma", "café 東京 🚀", "\u2028line")
]


def save_tokenizer(folder, bos=False):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tokenizer(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def heldout(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "heldout.jsonl"
    lines = [json.dumps({"text": text, "kind": "prose"}, ensure_ascii=False) for text in TEXTS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"file:{path}"


@pytest.mark.parametrize("length", [1, 7, 48, 128])
@pytest.mark.parametrize("dataset", ["pydocs", "random", "file"])
def test_every_prompt_has_exactly_the_planned_length(model, heldout, dataset, length):
    """B10: length is counted in ids, on every dataset, wherever the text is cut."""
    name = heldout if dataset == "file" else dataset
    prompts = load_prompts(name, model, length, seed=1)
    assert {len(prompts[i]) for i in range(prompts.distinct)} == {length}
    assert prompts.synthetic == (dataset == "random")


def test_the_ids_are_those_of_the_text(model, heldout):
    prompts = load_prompts(heldout, model, 48, seed=1)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    whole = [tokenizer.encode(text).ids for text in TEXTS]
    for i in range(20):
        ids = list(prompts[i])
        assert any(ids == ids_of[k : k + 48] for ids_of in whole for k in range(len(ids_of)))


def test_the_same_seed_gives_the_same_prompts_and_another_seed_another_order(model, heldout):
    """B6: paired arms share their prompts."""
    first, again, other = (load_prompts(heldout, model, 32, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.ids != other.ids


def test_prompts_do_not_repeat_before_they_are_used_up(model, heldout):
    prompts = load_prompts(heldout, model, 32, seed=1)
    assert len({prompts[i] for i in range(prompts.distinct)}) == prompts.distinct
    assert prompts[prompts.distinct] == prompts[0]


def test_prompts_begin_as_the_tokenizer_begins_a_text(tmp_path, heldout):
    model = save_tokenizer(tmp_path / "bos", bos=True)
    prompts = load_prompts(heldout, model, 16, seed=1)
    assert all(ids[0] == 0 and 0 not in ids[1:] for ids in prompts.ids)
    with pytest.raises(ValueError, match="no room for text"):
        load_prompts(heldout, model, 1, seed=1)


def test_random_prompts_hold_no_special_token(model):
    prompts = load_prompts("random", model, 64, seed=1)
    assert all(0 not in ids for ids in prompts.ids)


def test_an_unknown_dataset_is_refused_with_the_known_ones(model):
    with pytest.raises(ValueError, match=r"unknown dataset 'sharegpt', use one of: pydocs, random, file:"):
        load_prompts("sharegpt", model, 8, seed=1)


def test_a_missing_file_or_tokenizer_is_named(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl"):
        load_prompts(f"file:{tmp_path}/none.jsonl", model, 8, seed=1)
    with pytest.raises(FileNotFoundError, match=r"no tokenizer\.json in"):
        load_prompts("random", tmp_path, 8, seed=1)


@pytest.mark.parametrize("bad", ["not json", '["a"]', '{"txt": "a"}', '{"text": 3}'])
def test_a_damaged_line_is_named(model, tmp_path, bad):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"text": TEXTS[0]}) + "\n" + bad + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        load_prompts(f"file:{path}", model, 8, seed=1)


def test_texts_too_short_for_the_prompts_are_refused(model, heldout):
    with pytest.raises(ValueError, match="no text has 99999 tokens"):
        load_prompts(heldout, model, 99_999, seed=1)


def test_another_dataset_is_another_point():
    """B9: results of two datasets cannot meet under one point id."""

    def point_id(dataset):
        return Point(
            arm=Arm(mode="none"),
            server=ServerConfig(model="m"),
            workload=Workload(dataset=dataset),
            concurrency=1,
            repeat=0,
        ).point_id

    assert point_id("pydocs") != point_id("random")


def test_random_prompts_of_a_model_without_tokenizer_are_ids_of_its_vocabulary(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 50, "eos_token_id": 7}), encoding="utf-8")
    prompts = load_prompts("random", tmp_path, 12, seed=1)
    assert prompts.synthetic
    assert {len(prompts[i]) for i in range(200)} == {12}
    assert {i for n in range(200) for i in prompts[n]} == set(range(50)) - {7}
    assert prompts[3] == load_prompts("random", tmp_path, 12, seed=1)[3]
    assert prompts[3] != load_prompts("random", tmp_path, 12, seed=2)[3]
