"""Text to tokens: the byte-level BPE tokenizer, the token stream, the held-out prompts.

One compressed file holds it all, so that the machine that trains needs neither the text nor a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from specswitch.models.train.sources import CODE, PROSE, Document

END, PAD = "<|endoftext|>", "<|pad|>"
END_ID, PAD_ID = 0, 1
HELD_OUT_CHARS = 1600
# Prose is the smaller part of the text, and what loops first: seen twice an epoch.
REPEAT = {PROSE: 2, CODE: 1}


@dataclass(frozen=True, slots=True)
class Corpus:
    """Token streams [n] uint16, files divided by END. `prompts`: held-out texts with kind and source."""

    tokenizer: Tokenizer
    train: np.ndarray
    held_out: dict[str, np.ndarray]
    prompts: list[dict[str, str]]


def build(documents: Iterable[Document], vocab: int, prompts_per_kind: int = 160) -> Corpus:
    """Train the tokenizer on the training part and encode everything."""
    all_documents = list(documents)
    train = [d for d in all_documents if not d.held_out]
    tokenizer = train_tokenizer([d.text for d in train], vocab)
    streams = {
        kind: _encode(tokenizer, [d.text for d in all_documents if d.held_out and d.kind == kind])
        for kind in (PROSE, CODE)
    }
    repeated = [d.text for d in train for _ in range(REPEAT[d.kind])]
    return Corpus(
        tokenizer,
        _encode(tokenizer, repeated),
        {kind: stream for kind, stream in streams.items() if len(stream)},
        held_out_prompts(all_documents, prompts_per_kind),
    )


def train_tokenizer(texts: Sequence[str], vocab: int) -> Tokenizer:
    """Byte-level BPE of `vocab` entries, END and PAD the first two; adds no token to a text by itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def held_out_prompts(documents: Iterable[Document], per_kind: int) -> list[dict[str, str]]:
    """Pieces of about 1600 characters of held-out files, cut at line ends, taken evenly over the files."""
    chosen: list[dict[str, str]] = []
    for kind in (PROSE, CODE):
        pieces = [
            {"text": piece, "kind": kind, "source": d.name}
            for d in documents
            if d.held_out and d.kind == kind
            for piece in _pieces(d.text)
        ]
        step = max(1.0, len(pieces) / per_kind)
        chosen += [pieces[int(i * step)] for i in range(min(per_kind, len(pieces)))]
    return chosen


def save(corpus: Corpus, path: Path) -> None:
    """One compressed file (numpy's zip)."""
    parts = {
        "tokenizer": np.array(corpus.tokenizer.to_str()),
        "train": corpus.train,
        "prompts": np.array(json.dumps(corpus.prompts)),
    }
    parts |= {f"held_out_{kind}": stream for kind, stream in corpus.held_out.items()}
    np.savez_compressed(path, **parts)  # type: ignore[arg-type]


def load(path: Path) -> Corpus:
    """What `save` wrote."""
    with np.load(path) as parts:
        return Corpus(
            Tokenizer.from_str(str(parts["tokenizer"])),
            parts["train"],
            {k: parts[f"held_out_{k}"] for k in (PROSE, CODE) if f"held_out_{k}" in parts},
            json.loads(str(parts["prompts"])),
        )


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    rows = (np.array([*e.ids, END_ID], dtype=np.uint16) for e in tokenizer.encode_batch(list(texts)))
    return np.concatenate([np.empty(0, np.uint16), *rows])


def _pieces(text: str) -> list[str]:
    pieces, piece = [], ""
    for line in text.splitlines(keepends=True):
        piece += line
        if len(piece) >= HELD_OUT_CHARS:
            pieces.append(piece)
            piece = ""
    return pieces
