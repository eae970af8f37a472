"""Stage 3: text the target writes itself, which is the text the draft will have to guess."""

from __future__ import annotations

import copy
import time

import torch
from torch import Tensor

from specswitch.models.network import Shape, Target
from specswitch.models.train.generate import generate
from specswitch.models.train.target import Log, windows

TEMPERATURES = (0.0, 0.7, 1.0)
PROMPT_LENGTHS = (32, 96, 224)


def write_text(
    target: Target,
    stream: Tensor,
    seconds: float,
    batch: int,
    length: int,
    log: Log,
    seed: int = 3,
) -> Tensor:
    """Rows [n, length] uint16, a third per temperature, begun by real prompts of several lengths.

    Goes on in batches of `batch` rows until `seconds` are over, at least one batch.
    """
    device = stream.device
    writer = copy.deepcopy(target).to(torch.bfloat16) if device.type == "cuda" else target
    generator = torch.Generator().manual_seed(seed)
    temperatures = torch.tensor(TEMPERATURES, device=device).repeat(batch // 3 + 1)[:batch]
    start, rows = time.monotonic(), list[Tensor]()
    while not rows or time.monotonic() - start < seconds:
        prompt = min(PROMPT_LENGTHS[len(rows) % len(PROMPT_LENGTHS)], length // 2)
        prompts = windows(stream, batch, prompt, generator)
        ids = generate(writer, prompts, length - prompt, temperatures, seed=seed + len(rows))
        rows.append(ids.to(torch.int16))
    text = torch.cat(rows)
    log(f"distilled {text.numel() / 1e6:.1f}M tokens in {time.monotonic() - start:.0f} s")
    return text


def draft_vocabulary(text: Tensor, shape: Shape) -> Tensor:
    """d2t [draft_vocab] int64: the most frequent tokens of `text` in id order, minus their draft ids."""
    counts = torch.bincount(text.flatten().long(), minlength=shape.vocab)
    chosen = counts.argsort(descending=True, stable=True)[: shape.draft_vocab].sort().values
    return chosen - torch.arange(shape.draft_vocab, device=chosen.device)
