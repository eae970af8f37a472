"""Stage 1: train the target on windows of the token stream. Stage 3, `settle`: a short second round."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from specswitch.models.network import Shape, Target, init_weights
from specswitch.models.train.schedule import Optimizers, clock, compiled, half_precision

Log = Callable[[str], None]
RATE, SETTLING_RATE = 5e-3, 1.5e-3


def windows(stream: Tensor, batch: int, length: int, generator: torch.Generator) -> Tensor:
    """`batch` random windows [batch, length] int64 of a stream [n] on any device."""
    starts = torch.randint(0, len(stream) - length + 1, (batch, 1), generator=generator).to(stream.device)
    return stream[starts + torch.arange(length, device=stream.device)].long()


def loss_of(target: Target, ids: Tensor) -> Tensor:
    """Mean cross entropy of the next token, ids [B, T + 1]."""
    hidden, _ = target(ids[:, :-1])
    return F.cross_entropy(target.head(hidden).float().flatten(0, 1), ids[:, 1:].flatten())


def new_target(shape: Shape, device: torch.device, seed: int = 1) -> Target:
    """A target with seeded random weights."""
    target = Target(shape)
    init_weights(target, shape, seed)
    return target.to(device)


def train_target(
    target: Target,
    stream: Tensor,
    seconds: float,
    batch: int,
    log: Log,
    fast: bool,
    lr: float = RATE,
    seed: int = 1,
) -> int:
    """Train `target` in place for `seconds` on `stream` [n], both on one device. Returns tokens seen.

    fast: use torch.compile, which costs half a minute first.
    """
    device, context = stream.device, target.model.shape.context
    optimizers = Optimizers(target, lr)
    generator = torch.Generator().manual_seed(seed)
    forward = compiled(loss_of, fast)
    step = 0
    for step, progress in clock(seconds):
        ids = windows(stream, batch, context + 1, generator)
        with half_precision(device):
            loss = forward(target, ids)
        loss.backward()
        optimizers.step(progress)
        if step % 250 == 2:
            tokens = step * batch * context / 1e6
            log(f"target step {step} progress {progress:.2f} tokens {tokens:.0f}M loss {loss.item():.3f}")
    return step * batch * context


def settle(target: Target, stream: Tensor, seconds: float, batch: int, log: Log, fast: bool) -> int:
    """Real text again after the loop breaking, which leaves the target choosing odd words. Returns tokens seen."""
    return train_target(target, stream, seconds, batch, log, fast, lr=SETTLING_RATE, seed=6)


@torch.no_grad()
def held_out_loss(target: Target, stream: Tensor, length: int = 512) -> float | None:
    """Mean next-token loss (nats) over whole windows of a held-out stream; None when it is too short."""
    count = len(stream) // (length + 1)
    if not count:
        return None
    ids = stream[: count * (length + 1)].view(count, length + 1).long()
    losses = [loss_of(target, part) * len(part) for part in ids.split(64)]
    return float(torch.stack(losses).sum()) / count
