"""All stages in order, each result on disk before the next begins."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import torch

from specswitch.models import checkpoint
from specswitch.models.network import Draft, Target
from specswitch.models.train.corpus import Corpus
from specswitch.models.train.distill import draft_vocabulary, write_text
from specswitch.models.train.draft import new_draft, train_draft
from specswitch.models.train.evaluate import evaluate
from specswitch.models.train.recipe import Recipe, Stages
from specswitch.models.train.target import held_out_loss, new_target, settle, train_target
from specswitch.models.train.tokenizer_files import save_tokenizer
from specswitch.models.train.unlikelihood import break_loops

TARGET, DRAFT = "tiny-target", "tiny-draft"


def run(
    corpus: Corpus, recipe: Recipe, stages: Stages, out: Path, seconds: float, device: torch.device, *, fast: bool,
    begin_with: Path | None = None,
) -> None:  # fmt: skip
    """Train for about `seconds`. Leaves tiny-target, tiny-draft, heldout.jsonl and training.json in `out`.

    begin_with: directory of a pair to go on from, instead of from scratch.
    """
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", flush=True)  # noqa: T201

    shape = recipe.shape
    stream = torch.from_numpy(corpus.train.astype(np.int16)).to(device)
    held_out = {k: torch.from_numpy(v.astype(np.int16)).to(device) for k, v in corpus.held_out.items()}
    lines = (json.dumps(prompt) + "\n" for prompt in corpus.prompts)
    (out / "heldout.jsonl").write_text("".join(lines), encoding="utf-8")
    save_tokenizer(corpus.tokenizer, shape, out / TARGET)

    draft: Draft | None = None
    if begin_with:
        loaded = checkpoint.load_pair(begin_with / TARGET, begin_with / DRAFT, torch.float32)
        target, draft = (m.to(device).requires_grad_(True) for m in loaded)
    else:
        target = new_target(shape, device)

    def held_out_losses(of: Target) -> str:
        return ", ".join(f"{kind} {held_out_loss(of, tokens)}" for kind, tokens in held_out.items())

    tokens = 0
    if stages.target:
        tokens += train_target(target, stream, seconds * stages.target, recipe.target_batch, log, fast)
        checkpoint.save_target(target, shape, out / TARGET)
        log(f"held-out loss: {held_out_losses(target)}")
    if stages.loops:
        break_loops(target, stream, seconds * stages.loops, recipe.loops_batch, log)
        log(f"held-out loss: {held_out_losses(target)}")
    if stages.settle:
        tokens += settle(target, stream, seconds * stages.settle, recipe.target_batch, log, fast)
    checkpoint.round_weights(target)
    checkpoint.save_target(target, shape, out / TARGET)
    log(f"held-out loss: {held_out_losses(target)}")

    text = write_text(target, stream, seconds * stages.text, recipe.text_batch, recipe.text_length, log)
    draft = draft or new_draft(target, draft_vocabulary(text, shape))
    draft_tokens = train_draft(
        draft, target, text, stream, seconds * stages.draft, recipe.draft_batch, log,
        lambda unfinished: checkpoint.save_draft(unfinished, shape, out / DRAFT), fast,
    )  # fmt: skip
    checkpoint.round_weights(draft)
    checkpoint.save_draft(draft, shape, out / DRAFT)
    report = {
        "target_tokens": tokens,
        "distilled_tokens": text.numel(),
        "draft_tokens": draft_tokens,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "held_out": evaluate(target, draft, corpus.tokenizer, corpus.prompts),
    }
    (out / "training.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    log(json.dumps(report, indent=1))
