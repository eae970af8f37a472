"""Stage 1: train the target on windows of the token stream."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from specswitch.models.network import Shape, Target, init_weights
from specswitch.models.train.schedule import Clock, Optimizers

Log = Callable[[str], None]


def windows(stream: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """`batch` random windows [batch, length] int64 of a stream [n] on any device."""
    starts = torch.randint(0, len(stream) - length + 1, (batch, 1), generator=generator).to(stream.device)
    return stream[starts + torch.arange(length, device=stream.device)].long()


def loss_of(target: Target, ids: Tensor) -> Tensor:
    """Mean cross entropy of the next token, ids [B, T + 1]."""
    hidden, _ = target(ids[:, :-1])
    return F.cross_entropy(target.head(hidden).float().flatten(0, 1), ids[:, 1:].flatten())


def train_target(
    shape: Shape, stream: Tensor, seconds: float, batch: int, log: Log, seed: int = 1, lr: float = 5e-3
) -> tuple[Target, int]:
    """Train from scratch for `seconds` on `stream` [n] (its device is where training runs).

    Returns the target and the number of tokens it has seen.
    """
    device = stream.device
    target = Target(shape)
    init_weights(target, shape, seed)
    target.to(device)
    optimizers = Optimizers(target, matrix_lr=lr, other_lr=0.8 * lr)
    generator = torch.Generator().manual_seed(seed)
    forward = compiled(loss_of) if device.type == "cuda" else loss_of
    tokens = step = 0
    for progress in Clock(seconds).ticks():
        ids = windows(stream, batch, shape.context + 1, generator)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = forward(target, ids)
        loss.backward()
        optimizers.step(progress)
        tokens += batch * shape.context
        step += 1
        if step % 250 == 0 or step == 2:
            log(
                f"target step {step} progress {progress:.2f} tokens {tokens / 1e6:.0f}M loss {loss.item():.3f}"
            )
    return target, tokens


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch.compile where it works; the plain function from the first failure on."""
    fast = torch.compile(function, dynamic=False)
    broken = False

    def call(*arguments: object) -> Tensor:
        nonlocal broken
        if not broken:
            try:
                return fast(*arguments)
            except Exception as error:  # a machine without a compiler can still train
                broken = True
                print(f"torch.compile failed, going on without: {error!r:.300}", file=sys.stderr)
        return function(*arguments)

    return call


@torch.no_grad()
def held_out_loss(target: Target, stream: Tensor, length: int = 512) -> float | None:
    """Mean next-token loss (nats) over whole windows of a held-out stream; None when it is too short."""
    count = len(stream) // (length + 1)
    if not count:
        return None
    ids = stream[: count * (length + 1)].view(count, length + 1).long()
    losses = [loss_of(target, part) * len(part) for part in ids.split(64)]
    return float(sum(losses)) / count
