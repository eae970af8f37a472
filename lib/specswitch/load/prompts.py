"""Prompts as token ids, exactly as long as planned, the same for the same seed.

Real text by default: on random tokens acceptance means nothing. Ids are sent, not text, so that no decoding
and encoding on the way changes a length. Texts are cut into slices that do not overlap; where they are used
up, the cut moves by some tokens, so that a prompt comes back (and hits a warm prefix cache) as late as
possible.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tokenizers import Tokenizer

from specswitch.explain import read_given_text

FILE_PREFIX = "file:"
BUNDLED = {"pydocs": "heldout.jsonl"}
RANDOM = "random"
RANDOM_PROMPTS = 4096
# Different cuts of the same texts, before prompts repeat.
CUTS = 4


@dataclass(frozen=True, slots=True)
class Prompts:
    """An endless source of prompts: `prompts[i]` is a tuple of exactly `prompt_tokens` ids, i >= 0.

    `distinct`: how many differ before they repeat. `synthetic`: made-up tokens, not text; acceptance measured
    on them means nothing.
    """

    dataset: str
    synthetic: bool
    prompt_tokens: int
    ids: tuple[tuple[int, ...], ...]

    @property
    def distinct(self) -> int:
        """Number of prompts before the first one comes again."""
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return self.ids[index % len(self.ids)]


def load_prompts(dataset: str, model_dir: Path, prompt_tokens: int, seed: int) -> Prompts:
    """Prompts of `prompt_tokens` ids for the model whose `tokenizer.json` lies in `model_dir`.

    dataset: `pydocs` (held-out text that comes with the package), `file:PATH.jsonl` (one
    `{"text": ...}` a line) or `random` (uniform ids, flagged synthetic; needs no tokenizer).
    Prompts begin with the special tokens that the tokenizer puts before a text (such as BOS).
    seed: order of the prompts; the same seed gives the same prompts, which is what paired arms need.

    Raises ValueError on an unknown dataset, a damaged file, or texts too short; FileNotFoundError.
    """
    tokenizer_file = model_dir / "tokenizer.json"
    if dataset == RANDOM and not tokenizer_file.is_file() and (model_dir / "config.json").is_file():
        return _random_ids(model_dir, prompt_tokens, random.Random(f"{dataset}/{seed}"))
    if not tokenizer_file.is_file():
        raise FileNotFoundError(f"no tokenizer.json in {model_dir}: is this a model directory?")
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    prefix = leading_specials(tokenizer)
    body_tokens = prompt_tokens - len(prefix)
    if body_tokens < 1:
        raise ValueError(
            f"prompt_tokens={prompt_tokens} leaves no room for text after {len(prefix)} special tokens"
        )
    rng = random.Random(f"{dataset}/{seed}")
    if dataset == RANDOM:
        slices = _random_slices(tokenizer, body_tokens, rng)
    else:
        slices = _text_slices(_read_texts(_dataset_file(dataset)), tokenizer, body_tokens, rng)
    return Prompts(dataset, dataset == RANDOM, prompt_tokens, tuple((*prefix, *ids) for ids in slices))


def leading_specials(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Special token ids that this tokenizer puts before a text, such as BOS; often none."""
    encoding = tokenizer.encode("a", add_special_tokens=True)
    if 0 not in encoding.special_tokens_mask:
        return ()
    return tuple(encoding.ids[: encoding.special_tokens_mask.index(0)])


def _dataset_file(dataset: str) -> Path:
    if dataset.startswith(FILE_PREFIX):
        path = Path(dataset.removeprefix(FILE_PREFIX))
    elif dataset in BUNDLED:
        path = Path(str(files("specswitch").joinpath("models", "data", BUNDLED[dataset])))
    else:
        known = ", ".join([*BUNDLED, RANDOM, f"{FILE_PREFIX}PATH.jsonl"])
        raise ValueError(f"unknown dataset {dataset!r}, use one of: {known}")
    if not path.is_file():
        raise FileNotFoundError(f"dataset {dataset!r}: no file {path}")
    return path


def _read_texts(path: Path) -> list[str]:
    """The `text` of each line of a JSON-lines file. ValueError names the file or the damaged line."""
    texts = []
    # Not splitlines(): a text may hold U+2028 and its like, which are no line ends in JSON lines.
    for number, line in enumerate(read_given_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (json.JSONDecodeError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise ValueError(f'{path} line {number}: not a JSON object with a string "text"')
        texts.append(text)
    return texts


def _text_slices(
    texts: Sequence[str], tokenizer: Tokenizer, length: int, rng: random.Random
) -> list[tuple[int, ...]]:
    """Distinct slices of `length` ids: all of the first cut in random order, then of the next one, ..."""
    encoded = [e.ids for e in tokenizer.encode_batch(list(texts), add_special_tokens=False)]
    slices: dict[tuple[int, ...], None] = {}
    for cut in range(min(CUTS, length)):
        offset = cut * length // CUTS
        found = [
            tuple(ids[start : start + length])
            for ids in encoded
            for start in range(offset, len(ids) - length + 1, length)
        ]
        rng.shuffle(found)
        slices.update(dict.fromkeys(found))
    if not slices:
        longest = max((len(ids) for ids in encoded), default=0)
        raise ValueError(
            f"no text has {length} tokens (the longest of {len(encoded)} has {longest}): "
            "use shorter prompts or longer texts"
        )
    return list(slices)


def _random_slices(tokenizer: Tokenizer, length: int, rng: random.Random) -> list[tuple[int, ...]]:
    """Prompts of uniformly drawn ids, special tokens left out."""
    specials = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    ordinary = [i for i in range(tokenizer.get_vocab_size()) if i not in specials]
    return [tuple(rng.choices(ordinary, k=length)) for _ in range(RANDOM_PROMPTS)]


def _random_ids(model_dir: Path, length: int, rng: random.Random) -> Prompts:
    """The same for a model that has no tokenizer: the shape of one, without weights."""
    config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
    specials = {config.get(f"{name}_token_id") for name in ("bos", "eos", "pad")}
    ordinary = [i for i in range(config["vocab_size"]) if i not in specials]
    ids = tuple(tuple(rng.choices(ordinary, k=length)) for _ in range(RANDOM_PROMPTS))
    return Prompts(RANDOM, True, length, ids)
