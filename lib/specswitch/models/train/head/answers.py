"""Stage 2: the target's own answers, which are the text that the draft will have to guess."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from specswitch.models.network import Target
from specswitch.models.train.head.decode import answer
from specswitch.models.train.head.sizes import halving
from specswitch.models.train.target import Log

TEMPERATURES = (0.0, 0.7, 1.0)
NEW_TOKENS = 256
# More than a head sees often within an hour; the time is better spent on training.
MOST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class Answers:
    """Conversations one behind the other: `ids` [tokens], and per conversation its prompt's and its whole length."""

    ids: np.ndarray
    prompt: np.ndarray
    length: np.ndarray

    def __len__(self) -> int:
        return len(self.length)

    def conversations(self) -> list[np.ndarray]:
        """Ids of each, prompt and answer."""
        return np.split(self.ids, np.cumsum(self.length)[:-1])

    def answer_ids(self) -> np.ndarray:
        """Ids of all answers in one row, without the prompts."""
        return np.concatenate([ids[p:] for ids, p in zip(self.conversations(), self.prompt, strict=True)])


def write_answers(
    target: Target,
    prompts: Sequence[Sequence[int]],
    ends: frozenset[int],
    device: torch.device,
    rows: int,
    seconds: float,
    log: Log,
    new_tokens: int = NEW_TOKENS,
) -> Answers:
    """Answer prompts for about `seconds`, at least one batch; a third of the answers per temperature.

    Goes through all prompts with one temperature each, then again with the next one. Ends
    early with ten million tokens.
    """
    start, parts, batches, fresh = time.monotonic(), list[Answers](), 0, 0
    for chosen, temperatures in _batches(prompts, rows):
        spent = time.monotonic() - start
        if batches and (spent * (1 + 1 / batches) > seconds or fresh >= MOST_TOKENS):
            break
        batches, at = batches + 1, 0
        while at < len(chosen):

            def some(
                count: int, at: int = at, chosen: list[int] = chosen, t: list[float] = temperatures
            ) -> Answers:
                asked = [prompts[i] for i in chosen[at : at + count]]
                heat = torch.tensor(t[at : at + count], device=device)
                return _answered(target, asked, heat, ends, new_tokens, seed=1000 + len(parts))

            part, took = halving(some, min(rows, len(chosen) - at))
            rows = took if took < min(rows, len(chosen) - at) else rows
            parts.append(part)
            fresh += int((part.length - part.prompt).sum())
            at += took
    done = Answers(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("ids", "prompt", "length")))
    log(f"answers: {len(done)}, {fresh / 1e6:.2f}M tokens in {time.monotonic() - start:.0f} s")
    return done


def save_answers(answers: Answers, path: Path) -> None:
    """One compressed file (numpy's zip), whole or not at all."""
    unfinished = path.with_suffix(".part.npz")
    np.savez_compressed(unfinished, ids=answers.ids, prompt=answers.prompt, length=answers.length)
    os.replace(unfinished, path)


def load_answers(path: Path) -> Answers:
    """What `save_answers` wrote."""
    with np.load(path) as parts:
        return Answers(parts["ids"], parts["prompt"], parts["length"])


def _batches(prompts: Sequence[Sequence[int]], rows: int) -> Iterator[tuple[list[int], list[float]]]:
    """Prompt numbers and temperatures, for ever: prompts of a batch are about as long, batches in random order."""
    generator = np.random.default_rng(11)
    by_length = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    batches = [part.tolist() for part in np.array_split(by_length, -(-len(by_length) // rows))]
    turn = 0
    while True:
        for at in generator.permutation(len(batches)):
            batch = batches[at]
            yield batch, [TEMPERATURES[(i + turn) % len(TEMPERATURES)] for i in range(len(batch))]
        turn += 1


def _answered(
    target: Target,
    prompts: list[Sequence[int]],
    temperatures: Tensor,
    ends: frozenset[int],
    new_tokens: int,
    seed: int,
) -> Answers:
    longest = max(len(p) for p in prompts)
    ids, lengths = answer(target, prompts, longest + new_tokens, temperatures, ends, seed)
    # A short prompt among long ones would get more than its share.
    prompt = np.array([len(p) for p in prompts], dtype=np.int32)
    length = np.minimum(lengths.cpu().numpy(), prompt + new_tokens).astype(np.int32)
    kind = np.uint16 if target.model.shape.vocab <= 2**16 else np.uint32
    table = ids.cpu().numpy().astype(kind)
    return Answers(np.concatenate([row[:n] for row, n in zip(table, length, strict=True)]), prompt, length)
