"""Stage 1: prompts that the target itself takes for a user's, the held-out ones set aside at once.

A chat model that is given the opening of a user's turn writes one. Prompts that begin alike count as one, so
that a held-out prompt has no near twin in the training part.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from specswitch.models.network import Target
from specswitch.models.train.head.decode import answer
from specswitch.models.train.head.frame import Frame
from specswitch.models.train.head.sizes import halving
from specswitch.models.train.target import Log

TEMPERATURES = (0.8, 1.0)
MAX_TURN, BASE_TURN = 80, 32
LEAST_WORDS, SAME_WORDS = 3, 8
HELD_OUT, HELD_OUT_SHARE = 512, 0.1


class UnusableTextError(ValueError):
    """The target wrote too little that a head could learn from."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts of user turns, the same way in both parts."""

    train: list[str]
    held_out: list[str]


def write_prompts(
    target: Target, frame: Frame, device: torch.device, rows: int, seconds: float, log: Log
) -> Prompts:
    """Let the target write user turns for about `seconds`, at least one batch of `rows`.

    Turns without an end, with special tokens or of fewer than three words are dropped, and all but the first of
    those whose first eight words agree. The first ones, 512 or a tenth if that is less, are held out.
    Raises UnusableTextError when fewer than two are left.
    """
    start, written, batches = time.monotonic(), 0, 0
    kept: dict[tuple[str, ...], str] = {}
    while batches == 0 or (time.monotonic() - start) * (1 + 1 / batches) < seconds:

        def turns_of(count: int, seed: int = 100 + batches) -> list[str]:
            return _turns(target, frame, device, count, seed)

        turns, rows = halving(turns_of, rows)
        written, batches = written + rows, batches + 1
        _add(kept, turns)
    texts = list(kept.values())
    log(f"prompts: {written} written, {len(texts)} kept in {time.monotonic() - start:.0f} s")
    if len(texts) < 2:
        raise UnusableTextError(
            f"of {written} prompts that the target wrote {len(texts)} are usable: give more time, or prompts.jsonl"
        )
    return split(texts)


def split(texts: list[str]) -> Prompts:
    """Hold the first ones out."""
    count = min(HELD_OUT, max(1, int(len(texts) * HELD_OUT_SHARE)))
    return Prompts(texts[count:], texts[:count])


def key(text: str) -> tuple[str, ...]:
    """What makes two prompts the same one: their first eight words, case and punctuation not minded."""
    return tuple(re.findall(r"\w+", text.casefold())[:SAME_WORDS])


def distinct(texts: Iterable[str]) -> list[str]:
    """The first of all texts with the same key."""
    kept: dict[tuple[str, ...], str] = {}
    _add(kept, texts)
    return list(kept.values())


def read_texts(path: Path) -> list[str]:
    """The texts of a file with one `{"text"}` a line."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["text"] for line in lines if line.strip()]


def save_prompts(prompts: Prompts, path: Path) -> None:
    """One `{"text", "held_out"}` a line; the file appears whole or not at all."""
    parts = ((prompts.held_out, True), (prompts.train, False))
    lines = [
        json.dumps({"text": t, "held_out": held}, ensure_ascii=False) + "\n" for ts, held in parts for t in ts
    ]
    unfinished = path.with_suffix(".part")
    unfinished.write_text("".join(lines), encoding="utf-8")
    os.replace(unfinished, path)


def load_prompts(path: Path) -> Prompts:
    """What `save_prompts` wrote, or a user's own file without `held_out`, which is then split here."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not any("held_out" in line for line in lines):
        return split(distinct(line["text"] for line in lines))
    held = [line["text"] for line in lines if line["held_out"]]
    return Prompts([line["text"] for line in lines if not line["held_out"]], held)


def _add(kept: dict[tuple[str, ...], str], texts: Iterable[str]) -> None:
    for text in texts:
        kept.setdefault(key(text), text)


def _turns(target: Target, frame: Frame, device: torch.device, rows: int, seed: int) -> list[str]:
    """Usable turns of one batch."""
    temperatures = torch.tensor(TEMPERATURES, device=device).repeat(rows // len(TEMPERATURES) + 1)[:rows]
    begun, ends = len(frame.before), frame.ends if frame.turn_end is not None else frozenset[int]()
    width = begun + (MAX_TURN if ends else BASE_TURN)
    ids, lengths = answer(target, [frame.before] * rows, width, temperatures, ends, seed)
    texts = []
    for row, length in zip(ids.tolist(), lengths.tolist(), strict=True):
        turn = row[begun:length]
        if ends:
            if turn[-1] not in ends:
                continue
            turn = turn[:-1]
        if frame.special.isdisjoint(turn) and len(key(text := frame.decode(turn))) >= LEAST_WORDS:
            texts.append(text)
    return texts
