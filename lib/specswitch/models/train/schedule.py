"""Training bounded by time: the learning rate follows the clock, so the run ends annealed wherever it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import torch
from torch import nn

WARM_UP, DECAY_FROM = 0.02, 0.35


class Clock:
    """Progress 0..1 of a stage of `seconds`; `ticks` yields it until the time is up, at least `least` times."""

    def __init__(self, seconds: float, least: int = 2) -> None:
        self.seconds, self.least = seconds, least

    def ticks(self) -> Iterator[float]:
        """Yield the progress before each step; the clock starts when the first step has been done.

        The first step compiles, which must not eat the warm-up.
        """
        yield 0.0
        start, done = time.monotonic(), 1
        while (progress := (time.monotonic() - start) / self.seconds) < 1 or done < self.least:
            yield min(progress, 0.999)
            done += 1


def rate(progress: float) -> float:
    """Share of the peak learning rate: a short warm-up, a plateau, then linear to zero."""
    if progress < WARM_UP:
        return max(progress / WARM_UP, 0.02)
    return min(1.0, (1 - progress) / (1 - DECAY_FROM))


class Optimizers:
    """Muon for the matrices inside layers, AdamW for embeddings, heads and norms, stepped together."""

    def __init__(self, module: nn.Module, matrix_lr: float, other_lr: float) -> None:
        trained = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        matrices = [p for n, p in trained if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
        chosen = {id(p) for p in matrices}
        others = [p for _, p in trained if id(p) not in chosen]
        self.parameters = [p for _, p in trained]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, lr=matrix_lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=other_lr, betas=(0.9, 0.95), weight_decay=0.0),
        ]
        self.peaks = [matrix_lr, other_lr]

    def step(self, progress: float) -> None:
        """Clip, set the rate for `progress`, step, clear the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer, peak in zip(self.optimizers, self.peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * rate(progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def perplexity(loss: float) -> float:
    """e^loss, capped so that an early value prints."""
    return math.exp(min(loss, 20.0))
