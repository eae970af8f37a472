"""The tokenizer files of the target's directory."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from specswitch.models.network import Shape
from specswitch.models.train.corpus import END, PAD


def save_tokenizer(tokenizer: Tokenizer, shape: Shape, directory: Path) -> None:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json. END ends a text; PAD never means it."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    specials = {"bos_token": END, "eos_token": END, "unk_token": END, "pad_token": PAD}
    config = specials | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": shape.context,
        "clean_up_tokenization_spaces": False,
    }
    for name, content in (("tokenizer_config.json", config), ("special_tokens_map.json", specials)):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
