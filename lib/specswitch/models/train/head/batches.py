"""Answers as training batches: conversations of about one length side by side, and which tokens are to be guessed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specswitch.models.train.head.answers import Answers
from specswitch.models.train.head.prompts import UnusableTextError

# Conversations are sorted by length within so many batches: little padding, and still random company.
POOL = 16
# Rows of few different widths: an allocator that caches blocks by size then finds them again.
WIDTHS = 32


@dataclass(frozen=True, slots=True)
class Batch:
    """ids [B, L] int64, each row followed by at least as many padding tokens as the chain has steps.

    row, token [N] int64: the guessed tokens, ids[row, token]: all of the answers but the first of each, which
    the target itself makes with the prompt.
    """

    ids: Tensor
    row: Tensor
    token: Tensor

    def parts(self, rows: int) -> Iterator[Batch]:
        """The same batch in pieces of at most `rows` conversations."""
        for begin in range(0, len(self.ids), rows):
            inside = (self.row >= begin) & (self.row < begin + rows)
            yield Batch(self.ids[begin : begin + rows], self.row[inside] - begin, self.token[inside])

    def to(self, device: torch.device) -> Batch:
        """The same batch there."""
        return Batch(self.ids.to(device), self.row.to(device), self.token.to(device))


def batches(answers: Answers, rows: int, steps: int, seed: int) -> Iterator[Batch]:
    """Batches of `rows` conversations on the CPU, for ever; every conversation once an epoch."""
    generator = np.random.default_rng(seed)
    conversations = answers.conversations()
    worth = np.flatnonzero(answers.length - answers.prompt > 1)
    if not len(worth):
        raise UnusableTextError("no answer has two tokens: nothing to learn from")
    while True:
        order = generator.permutation(worth)
        for begin in range(0, len(order), rows * POOL):
            pool = order[begin : begin + rows * POOL]
            pool = pool[np.argsort(answers.length[pool], kind="stable")]
            for chosen in generator.permutation(len(range(0, len(pool), rows))):
                numbers = pool[chosen * rows : (chosen + 1) * rows]
                yield collate([conversations[i] for i in numbers], answers.prompt[numbers], steps)


def collate(conversations: list[np.ndarray], prompt: np.ndarray, steps: int) -> Batch:
    """One batch of conversations whose first `prompt` tokens [B] are given."""
    length = np.array([len(ids) for ids in conversations])
    width = -(-int(length.max() + steps) // WIDTHS) * WIDTHS
    table = np.zeros((len(conversations), width), dtype=np.int64)
    for line, ids in zip(table, conversations, strict=True):
        line[: len(ids)] = ids
    column = np.arange(table.shape[1])
    # Token t of step k is guessed from state t - k - 2, which a very short prompt may not have.
    given = np.maximum(prompt, steps)
    row, token = np.nonzero((column > given[:, None]) & (column < length[:, None]))
    return Batch(torch.from_numpy(table), torch.from_numpy(row), torch.from_numpy(token))
