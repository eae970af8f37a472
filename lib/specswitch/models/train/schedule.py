"""Training bounded by time: the learning rate follows the clock, so the run ends annealed wherever it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

WARM_UP, DECAY_FROM = 0.02, 0.35


def clock(seconds: float, least: int = 2) -> Iterator[tuple[int, float]]:
    """(step from 1, progress 0..1) before each step, until the time is up and `least` steps are done.

    Time counts from the end of the first step: that one compiles, which must not eat the warm-up.
    """
    yield 1, 0.0
    start, step = time.monotonic(), 1
    while (progress := (time.monotonic() - start) / seconds) < 1 or step < least:
        step += 1
        yield step, min(progress, 0.999)


def rate(progress: float) -> float:
    """Share of the peak learning rate: a short warm-up, a plateau, then linear to zero."""
    if progress < WARM_UP:
        return max(progress / WARM_UP, 0.02)
    return min(1.0, (1 - progress) / (1 - DECAY_FROM))


class Optimizers:
    """Muon for the matrices inside layers, AdamW for embeddings, heads and norms, stepped together."""

    def __init__(self, module: nn.Module, lr: float) -> None:
        trained = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        matrices = [p for n, p in trained if p.ndim == 2 and "embed" not in n and "lm_head" not in n]
        chosen = {id(p) for p in matrices}
        others = [p for _, p in trained if id(p) not in chosen]
        self.lr = lr
        self.parameters = [p for _, p in trained]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Muon(matrices, lr=lr, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=lr, betas=(0.9, 0.95), weight_decay=0.0),
        ]

    def step(self, progress: float) -> None:
        """Clip, set the rate for `progress`, step, clear the gradients."""
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.lr * rate(progress)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)


def half_precision(device: torch.device) -> torch.autocast:
    """bf16 autocast on a GPU, nothing on a CPU."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def compiled(function: Callable[..., Tensor], wanted: bool) -> Callable[..., Tensor]:
    """torch.compile if wanted and where it works; the plain function from the first failure on."""
    if not wanted:
        return function
    fast = torch.compile(function, dynamic=False)
    broken = False

    def call(*arguments: object) -> Tensor:
        nonlocal broken
        if not broken:
            try:
                return fast(*arguments)
            except Exception:  # a machine without a C compiler can still train
                broken = True
                logging.getLogger(__name__).exception("torch.compile failed, going on without")
        return function(*arguments)

    return call
