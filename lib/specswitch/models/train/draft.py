"""Stage 4: train the draft to say what the target will say, several steps deep.

Training-time test as in EAGLE-3: step k of the chain sees true hidden states up to its start and its own
states after it, so training meets the inputs that drafting will meet.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from specswitch.models.network import Draft, Target, causal, init_weights, rotary
from specswitch.models.train.schedule import Optimizers, clock, compiled, half_precision
from specswitch.models.train.target import Log, windows

STEPS = 4
STEP_WEIGHT = 0.8
OWN_TEXT = 0.8
RATE = 3e-3
ARGMAX_WEIGHT = 0.3


def chain_states(draft: Draft, embeds: Tensor, aux: Tensor, steps: int) -> list[Tensor]:
    """The whole chain from every position at once.

    embeds [B, L, H]: embeddings of the tokens; aux [B, L, 3H]: the target's hidden states.
    Returns `steps` tensors [B, L - steps, H], of which `draft.head` makes logits: row i of step k guesses token
    i + k + 2, from a chain that begins at hidden state i and was given the true tokens i + 1 .. i + k + 1.
    """
    shape, count = draft.shape, embeds.shape[1] - steps
    hidden = draft.fc(aux[:, :count])
    keys: list[Tensor] = []
    values: list[Tensor] = []
    states = []
    for step in range(steps):
        positions = torch.arange(step, step + count, device=embeds.device)
        ahead = embeds[:, step + 1 : step + 1 + count]
        q, k, v = draft.midlayer.project(ahead, hidden, *rotary(shape, positions))
        keys.append(k)
        values.append(v)
        mixed = causal(q, k, v) if step == 0 else _chain_attention(q, keys, values)
        hidden = draft.midlayer.finish(hidden, mixed)
        states.append(hidden)
    return states


def chain_logits(draft: Draft, embeds: Tensor, aux: Tensor, steps: int) -> list[Tensor]:
    """Logits [B, L - steps, draft_vocab] of each step of `chain_states`."""
    return [draft.head(state) for state in chain_states(draft, embeds, aux, steps)]


def _chain_attention(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Row i sees keys[0] up to i and row i of each later step; q [B, heads, T, D], keys [B, kv, T, D] each."""
    groups = q.shape[1] // keys[0].shape[1]
    wide_keys = [k.repeat_interleave(groups, 1) for k in keys]
    wide_values = [v.repeat_interleave(groups, 1) for v in values]
    count = q.shape[2]
    past = q @ wide_keys[0].transpose(-1, -2)
    future = torch.ones(count, count, dtype=torch.bool, device=q.device).triu(1)
    past = past.float().masked_fill(future, float("-inf"))
    own = [(q.float() * k.float()).sum(-1, keepdim=True) for k in wide_keys[1:]]
    weights = (torch.cat((past, *own), -1) * q.shape[-1] ** -0.5).softmax(-1).to(q.dtype)
    mixed = weights[..., :count] @ wide_values[0]
    for step, v in enumerate(wide_values[1:]):
        mixed = mixed + weights[..., count + step, None] * v
    return mixed


def draft_loss(draft: Draft, target: Target, ids: Tensor, known: Tensor) -> Tensor:
    """KL to the target over the draft vocabulary, plus a little cross entropy on the target's choice.

    ids [B, L]; known [draft_vocab]: target ids of the draft vocabulary.
    """
    with torch.no_grad():
        hidden, aux = target(ids)
        embeds = target.model.embed_tokens(ids)
        full = target.head(hidden).float()
        wanted = full[..., known].log_softmax(-1)
        # Where the target's choice is outside the draft vocabulary no draft can be right.
        reachable = (full.argmax(-1) == known[wanted.argmax(-1)]).float()
    total = ids.new_zeros((), dtype=torch.float32)
    for step, logits in enumerate(chain_logits(draft, embeds, aux, STEPS)):
        here = slice(step + 1, step + 1 + logits.shape[1])
        said = logits.float().log_softmax(-1)
        kl = F.kl_div(said, wanted[:, here], log_target=True, reduction="none").sum(-1)
        choice = -said.gather(-1, wanted[:, here].argmax(-1, keepdim=True))[..., 0]
        worth = reachable[:, here]
        total = total + STEP_WEIGHT**step * ((kl + ARGMAX_WEIGHT * choice) * worth).sum() / worth.sum().clamp(
            min=1
        )
    return total


def new_draft(target: Target, d2t: Tensor, seed: int = 4) -> Draft:
    """A draft to begin with: random layer, head and last norm copied from the target's."""
    shape = target.model.shape
    draft = Draft(shape)
    init_weights(draft, shape, seed)
    draft.to(d2t.device)
    draft.d2t.copy_(d2t)
    with torch.no_grad():
        draft.lm_head.weight.copy_(target.head_weight[known_ids(draft)])
        draft.norm.weight.copy_(target.model.norm.weight)
    return draft


def known_ids(draft: Draft) -> Tensor:
    """Target ids of the draft vocabulary, in draft order [draft_vocab]."""
    return draft.to_target(torch.arange(draft.shape.draft_vocab, device=draft.d2t.device))


def train_draft(
    draft: Draft, target: Target, text: Tensor, stream: Tensor, seconds: float, batch: int, log: Log,
    keep: Callable[[Draft], None], fast: bool, lr: float = RATE, seed: int = 4,
) -> int:  # fmt: skip
    """Train `draft` in place for `seconds` on rows of `text` [n, L] and windows of the corpus `stream`.

    `keep` is handed the unfinished draft now and then, so that a cut run leaves something. fast: torch.compile.
    Returns the number of tokens it has seen (each counts once for all steps of the chain).
    """
    device, known = stream.device, known_ids(draft)
    target.requires_grad_(False)
    optimizers = Optimizers(draft, lr)
    generator = torch.Generator().manual_seed(seed)
    forward = compiled(draft_loss, fast)
    own = max(1, round(batch * OWN_TEXT))
    step = 0
    for step, progress in clock(seconds):
        rows = text[torch.randint(0, len(text), (own,), generator=generator).to(text.device)].long()
        ids = (
            torch.cat((rows, windows(stream, batch - own, text.shape[1], generator))) if batch > own else rows
        )
        with half_precision(device):
            loss = forward(draft, target, ids, known)
        loss.backward()
        optimizers.step(progress)
        if step % 250 == 2:
            keep(draft)
            tokens = step * batch * text.shape[1] / 1e6
            log(f"draft step {step} progress {progress:.2f} tokens {tokens:.1f}M loss {loss.item():.3f}")
    return step * batch * text.shape[1]
