"""Stage 3: train the head on the answers, with the target's hidden states computed on the way.

The draft reads residual streams whose channels differ by orders of magnitude in a real model. While training
it reads them divided by their size, channel by channel; for the checkpoint the division moves into `fc`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor

from specswitch.models.network import Draft, Target
from specswitch.models.train.draft import (
    ARGMAX_WEIGHT,
    STEP_WEIGHT,
    STEPS,
    chain_states,
    known_ids,
    new_draft,
)
from specswitch.models.train.head.answers import Answers
from specswitch.models.train.head.batches import Batch, batches
from specswitch.models.train.head.sizes import free_memory
from specswitch.models.train.schedule import Optimizers, clock, half_precision
from specswitch.models.train.target import Log

RATE = 2e-3
KEEP_EVERY_S, LOG_EVERY_S = 30.0, 10.0


@torch.no_grad()
def channel_sizes(target: Target, some: list[Batch]) -> Tensor:
    """Root mean square of every channel [3 * hidden] of what the draft reads, over guessed tokens, fp32.

    Prompts are left out: the first token's hidden state is often a hundred times as large as all others.
    """
    squares = [target(b.ids)[1][b.row, b.token].float().square() for b in some]
    return torch.cat(squares).mean(0).sqrt().clamp(min=1e-4)


def folded(draft: Draft, sizes: Tensor) -> Draft:
    """The draft as its checkpoint has it: a copy that reads undivided hidden states."""
    whole = copy.deepcopy(draft)
    with torch.no_grad():
        whole.fc.weight.div_(sizes)
    return whole


def loss_of(
    draft: Draft, target: Target, sizes: Tensor, batch: Batch, known: Tensor
) -> tuple[Tensor, Tensor]:
    """Loss of a batch, and the share of guesses of the first step that are the target's own choice.

    The loss: KL to the target over the draft vocabulary plus a little cross entropy on the target's choice,
    mean over guessed tokens whose choice the draft vocabulary holds, summed over the steps of the chain with
    falling weight. known [draft_vocab]: target ids of the draft vocabulary.
    """
    with torch.no_grad():
        hidden, aux = target(batch.ids)
        embeds = target.model.embed_tokens(batch.ids)
        aux = (aux / sizes).to(aux.dtype)
        full = target.head(hidden[batch.row, batch.token - 1])
        wanted = full[:, known].float().log_softmax(-1)
        choice = wanted.argmax(-1)
        # Where the target's choice is outside the draft vocabulary no draft can be right.
        worth = (full.argmax(-1) == known[choice]).float()
        share = worth / worth.sum().clamp(min=1)
        likely = wanted.exp()
        entropy = (likely * wanted).sum(-1)
    del full, wanted
    total, right = torch.zeros((), device=batch.ids.device), torch.zeros((), device=batch.ids.device)
    for step, states in enumerate(chain_states(draft, embeds, aux, STEPS)):
        # State i of step k guesses token i + k + 2.
        said = draft.head(states[batch.row, batch.token - step - 2]).float().log_softmax(-1)
        if step == 0:
            right = ((said.argmax(-1) == choice).float() * share).sum()
        kl = entropy - (likely * said).sum(-1)
        missed = -said.gather(-1, choice[:, None])[:, 0]
        total = total + STEP_WEIGHT**step * ((kl + ARGMAX_WEIGHT * missed) * share).sum()
    return total, right


def train_head(
    target: Target,
    answers: Answers,
    d2t: Tensor,
    rows: int,
    seconds: float,
    keep: Callable[[Draft], None],
    log: Log,
    rate: float = RATE,
    seed: int = 4,
    begin_with: Draft | None = None,
) -> tuple[Draft, dict[str, float]]:
    """Train for `seconds`; the head as its checkpoint has it, and figures of the training.

    d2t [draft_vocab] int64 on the device that trains. `keep` is handed an unfinished head every half minute.
    begin_with: a head as a checkpoint has it, over the same vocabulary, to go on from; it is changed.
    """
    device = d2t.device
    draft = begin_with.requires_grad_(True) if begin_with is not None else new_draft(target, d2t, seed)
    source = batches(answers, rows, STEPS, seed)
    sizes = channel_sizes(target, [b.to(device) for b in islice(source, 4)])
    if begin_with is not None:
        with torch.no_grad():
            draft.fc.weight.mul_(sizes)
    known, optimizers = known_ids(draft), Optimizers(draft, rate)
    seen, part_rows, step = 0, rows, 0
    first = last = right = None
    kept = logged = time.monotonic()
    for step, progress in clock(seconds):
        batch = next(source)
        loss, accuracy, part_rows = _backward(draft, target, sizes, batch, known, part_rows)
        optimizers.step(progress)
        seen += len(batch.token)
        now = time.monotonic()
        if first is None or now - logged > LOG_EVERY_S:
            # Reading a value waits for the device: done now and then only.
            last, right, logged = loss.item(), accuracy.item(), now
            first = first or last
            log(
                f"head: step {step} at {progress:.2f}, {seen / 1e6:.2f}M tokens, "
                f"loss {last:.3f}, first guess {right:.3f}"
            )
        if now - kept > KEEP_EVERY_S:
            keep(folded(draft, sizes))
            kept = time.monotonic()
    figures = {
        "steps": step, "tokens": seen, "rows": rows, "rate": rate, "first_loss": first or 0.0, "last_loss": loss.item(),
        "last_first_guess": accuracy.item(),
    }  # fmt: skip
    return folded(draft, sizes), figures


def _backward(
    draft: Draft, target: Target, sizes: Tensor, batch: Batch, known: Tensor, part_rows: int
) -> tuple[Tensor, Tensor, int]:
    """Gradients of a batch, computed in parts that fit: its loss, first-step accuracy, and the rows per part."""
    while True:
        try:
            loss, right = torch.zeros((), device=known.device), torch.zeros((), device=known.device)
            for here in batch.parts(part_rows):
                part = here.to(known.device)
                with half_precision(known.device):
                    part_loss, part_right = loss_of(draft, target, sizes, part, known)
                weight = len(part.token) / len(batch.token)
                (part_loss * weight).backward()
                loss, right = loss + part_loss.detach() * weight, right + part_right.detach() * weight
            return loss, right, part_rows
        except torch.OutOfMemoryError:
            if part_rows == 1:
                raise
        part_rows //= 2
        draft.zero_grad(set_to_none=True)
        free_memory()
