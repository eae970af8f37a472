"""What the pair is worth on held-out text: accept length of a greedy chain, and how much the text repeats.

The chain is walked over text the target wrote; that equals running it, because a chain's guess depends only
on tokens that were accepted. `specswitch.models.reference` runs it literally; a test compares the two.
`python -m specswitch.models.train.evaluate [PAIR_DIRECTORY]` prints the figures, by default of the pair that
comes with the package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specswitch.models import pair
from specswitch.models.checkpoint import load_pair
from specswitch.models.network import Draft, Target
from specswitch.models.train.draft import chain_logits
from specswitch.models.train.generate import distinct_share, generate

PROMPT, NEW, FIRST = 64, 128, 32
CHAIN = 3
TEMPERATURES = {"greedy": 0.0, "sampled_t0.7": 0.7}


@torch.no_grad()
def matches(draft: Draft, target: Target, ids: Tensor, steps: int = CHAIN) -> Tensor:
    """ids [B, L] -> bool [B, L - steps - 1, steps]: guess k of the chain from position i is token i + k + 2."""
    _, aux = target(ids)
    embeds = target.model.embed_tokens(ids)
    guesses = [draft.to_target(logits.argmax(-1)) for logits in chain_logits(draft, embeds, aux, steps)]
    count = ids.shape[1] - steps - 1
    return torch.stack([g[:, :count] == ids[:, k + 2 : k + 2 + count] for k, g in enumerate(guesses)], -1)


def accept_length(right: Tensor, prompt: int, new: int) -> tuple[int, int]:
    """Walk the chains over the `new` tokens behind a prompt: (tokens emitted by verify steps, verify steps).

    right: what `matches` returns. The first new token comes with the prefill and is in neither number. The last
    chain may run over the end and counts in full, as it does in an engine's counters of verify steps.
    """
    runs = right.int().cumprod(-1).sum(-1).tolist()
    emitted = verifies = 0
    for row in runs:
        # `last` is the newest known token; its chain begins one position earlier.
        last, end = prompt, prompt + new - 1
        while last < end:
            step = row[last - 1] + 1
            last += step
            emitted += step
            verifies += 1
    return emitted, verifies


def prompt_rows(texts: Iterable[str], tokenizer: Tokenizer, length: int) -> Tensor:
    """The first `length` tokens of every text that has as many: [n, length]."""
    encoded = (e.ids for e in tokenizer.encode_batch(list(texts)))
    return torch.tensor([ids[:length] for ids in encoded if len(ids) >= length])


@torch.no_grad()
def evaluate(
    target: Target, draft: Draft, tokenizer: Tokenizer, prompts: list[dict[str, str]]
) -> dict[str, dict[str, float]]:
    """Figures per kind of held-out text and over all of it; `prompts` as in heldout.jsonl.

    Computed in the weights' own dtype.
    `accept_first32` and `accept_128`: accept length over the first so many tokens of each answer.
    `distinct4`: share of 4-grams new to their answer; `real_text_distinct4`: the same of the true continuations.
    """
    device = draft.d2t.device
    report: dict[str, dict[str, float]] = {}
    for kind in [*sorted({p["kind"] for p in prompts}), "all"]:
        texts = [p["text"] for p in prompts if kind in ("all", p["kind"])]
        rows = prompt_rows(texts, tokenizer, PROMPT).to(device)
        figures: dict[str, float] = {"prompts": len(rows), "prompt_tokens": PROMPT}
        for name, temperature in TEMPERATURES.items():
            temperatures = torch.full((len(rows),), temperature, device=device)
            # Some tokens more than are counted, so that the last chains have text to be compared with.
            ids = generate(target, rows, NEW + CHAIN + 2, temperatures, seed=5)
            right = matches(draft, target, ids)
            for label, new in ((f"accept_first{FIRST}", FIRST), (f"accept_{NEW}", NEW)):
                emitted, verifies = accept_length(right, PROMPT, new)
                figures[f"{name}_{label}"] = round(emitted / verifies, 3)
            figures[f"{name}_distinct4"] = round(distinct_share(ids[:, PROMPT : PROMPT + NEW]), 3)
        real = prompt_rows(texts, tokenizer, PROMPT + NEW)
        figures["real_text_distinct4"] = round(distinct_share(real[:, PROMPT:]), 3)
        report[kind] = figures
    return report


def main(directory: Path) -> None:
    """Print the figures of the pair in `directory` as JSON."""
    target, draft = load_pair(directory / "tiny-target", directory / "tiny-draft", torch.float32)
    tokenizer = Tokenizer.from_file(str(directory / "tiny-target" / "tokenizer.json"))
    lines = pair.held_out_file().read_text(encoding="utf-8").split("\n")
    prompts = [json.loads(line) for line in lines if line]
    print(json.dumps(evaluate(target, draft, tokenizer, prompts), indent=1))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else pair.DATA)
