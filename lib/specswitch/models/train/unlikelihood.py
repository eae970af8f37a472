"""Stage 2: talk the target out of loops (sequence-level unlikelihood, Welleck et al. 2019).

A small model's greedy text runs in circles, and circles inflate acceptance. The target continues prompts
greedily; a token that completes a 4-gram its own continuation already had is made less likely. It stops
where the text repeats itself no more than real text does, and real text keeps being trained on meanwhile.
"""

from __future__ import annotations

import copy
import math
import time

import torch
from torch import Tensor

from specswitch.models.network import Target
from specswitch.models.train.generate import distinct_share, generate, repeated_ngrams
from specswitch.models.train.schedule import Optimizers, half_precision
from specswitch.models.train.target import Log, loss_of, windows

PROMPT, NEW = 64, 128
WEIGHT = 0.5
# Where on the schedule the stage begins: behind the warm-up, on the plateau.
BEGIN = 0.2


def repeat_loss(target: Target, ids: Tensor, prompt: int) -> Tensor:
    """Mean of -log(1 - p) over continuation tokens that complete a repeated 4-gram; ids [B, prompt + new]."""
    repeated = repeated_ngrams(ids[:, prompt:])
    hidden, _ = target(ids[:, :-1])
    logits = target.head(hidden[:, prompt - 1 :]).float()
    likely = logits.log_softmax(-1).gather(-1, ids[:, prompt:, None])[..., 0].exp()
    return (-torch.log1p(-likely.clamp(max=1 - 1e-4)) * repeated).sum() / repeated.sum().clamp(min=1)


def break_loops(target: Target, stream: Tensor, seconds: float, batch: int, log: Log, seed: int = 2) -> float:
    """Train `target` in place for at most `seconds`; returns the distinct 4-gram share of its last rollout."""
    device = stream.device
    generator = torch.Generator().manual_seed(seed)
    real = distinct_share(windows(stream, 4 * batch, NEW, generator))
    optimizers = Optimizers(target, lr=4e-4)
    share, start, rounds = 0.0, time.monotonic(), 0
    while (progress := (time.monotonic() - start) / seconds) < 1 or rounds == 0:
        prompts = windows(stream, batch, PROMPT, generator)
        actor = copy.deepcopy(target).to(torch.bfloat16) if device.type == "cuda" else target
        ids = generate(actor, prompts, NEW, torch.zeros(batch, device=device))
        share = distinct_share(ids[:, PROMPT:])
        if rounds % 10 == 0:
            log(f"loops round {rounds} distinct 4-grams {share:.3f} (real text {real:.3f})")
        calm = share >= real
        for part in ids.split(max(1, math.ceil(batch / 4))):
            text = windows(stream, max(1, len(part) // 4), target.model.shape.context + 1, generator)
            with half_precision(device):
                loss = loss_of(target, text)
                if not calm:
                    loss = loss + WEIGHT * repeat_loss(target, part, PROMPT)
            loss.backward()
            optimizers.step(BEGIN + (1 - BEGIN) * min(progress, 0.999))
        rounds += 1
    log(f"loops done after {rounds} rounds: distinct 4-grams {share:.3f} (real text {real:.3f})")
    return share
