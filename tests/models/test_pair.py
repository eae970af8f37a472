"""The bundled pair's files: whole, small, and with the names and ids that engines go by."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import safe_open
from transformers import AutoTokenizer

from models.draft_tensors import DRAFT_TENSORS
from specswitch.models import pair


def config(directory: Path) -> dict:
    return json.loads((directory / "config.json").read_text(encoding="utf-8"))


def test_checksums_of_the_bundled_files_hold() -> None:
    listed = pair.verify_checksums()
    on_disk = {
        p.relative_to(pair.DATA).as_posix()
        for d in (pair.target_dir(), pair.draft_dir())
        for p in d.iterdir()
    }
    assert set(listed) == on_disk | {"heldout.jsonl"}


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "data"
    shutil.copytree(pair.DATA, copy)
    victim = copy / "tiny-draft" / "model.safetensors"
    if damage == "changed":
        content = bytearray(victim.read_bytes())
        content[-1] ^= 1
        victim.write_bytes(content)
    else:
        victim.unlink()
    with pytest.raises(pair.DamagedPairError, match=r"tiny-draft.model\.safetensors"):
        pair.verify_checksums(copy)


def test_pair_with_tokenizer_is_below_sixteen_megabytes() -> None:
    files = [p for d in (pair.target_dir(), pair.draft_dir()) for p in d.iterdir()]
    size = sum(p.stat().st_size for p in files)
    assert size < 15.5e6
    assert json.loads((pair.DATA / "manifest.json").read_text())["pair_bytes"] == size


def test_draft_checkpoint_has_exactly_the_tensors_of_an_eagle3_head() -> None:
    with safe_open(pair.draft_dir() / "model.safetensors", "pt") as file:
        names = set(file.keys())
        d2t = file.get_tensor("d2t")
    assert names == set(DRAFT_TENSORS)
    target_ids = (d2t + d2t.new_tensor(range(len(d2t)))).tolist()
    assert len(set(target_ids)) == len(target_ids)
    assert min(target_ids) >= 0
    assert max(target_ids) < config(pair.target_dir())["vocab_size"]


def test_draft_config_names_three_capturable_target_layers() -> None:
    target, draft = config(pair.target_dir()), config(pair.draft_dir())
    ids = draft["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert len(set(ids)) == 3
    assert all(0 <= i < target["num_hidden_layers"] - 1 for i in ids)
    assert draft["eagle_config"]["use_aux_hidden_state"] is True
    assert draft["tie_word_embeddings"] is False
    assert 3 * target["hidden_size"] != draft["hidden_size"]


def test_tokenizer_ends_and_pads_with_different_tokens_and_adds_none() -> None:
    tokenizer = AutoTokenizer.from_pretrained(pair.target_dir())
    ids = config(pair.target_dir())
    assert tokenizer.eos_token_id == ids["eos_token_id"]
    assert tokenizer.pad_token_id == ids["pad_token_id"]
    assert tokenizer.eos_token_id != tokenizer.pad_token_id
    text = "def f(x):\n    return {'ü': x}  # 漢字\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_held_out_prompts_are_many_distinct_and_of_both_kinds() -> None:
    prose, code = pair.held_out_prompts("prose"), pair.held_out_prompts("code")
    assert min(len(prose), len(code)) >= 128
    assert sorted(pair.held_out_prompts()) == sorted(prose + code)
    assert len(set(prose + code)) == len(prose + code) >= 256


def test_looking_the_pair_up_needs_no_torch() -> None:
    program = (
        "import sys; from specswitch.models import pair; pair.verify_checksums(); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
