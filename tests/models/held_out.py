"""A handful of held-out prompts, half prose and half code, as token ids of the bundled pair."""

from __future__ import annotations

from tokenizers import Tokenizer

from specswitch.models import pair

PROMPT_TOKENS = 64


def handful(count: int) -> list[list[int]]:
    """`count` prompts (even) of 64 tokens, spread evenly over the held-out files."""
    tokenizer = Tokenizer.from_file(str(pair.target_dir() / "tokenizer.json"))
    chosen = []
    for kind in ("prose", "code"):
        texts = pair.held_out_prompts(kind)
        chosen += texts[:: len(texts) // (count // 2)][: count // 2]
    return [tokenizer.encode(text).ids[:PROMPT_TOKENS] for text in chosen]
