"""What a trained head says of itself: training.json, and the same for readers as README.md beside the weights."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

PARTS = {"held_out": "the target's own user turns, held out", "questions": "everyday questions"}
KINDS = {"greedy": "greedy", "sampled_t0.7": "sampled at 0.7, matched by the greedy chain"}
_CARD = """# EAGLE-3 head for {target}

One EAGLE-3 layer with its own head over {draft_vocab:,} of the target's {vocab:,} tokens ({coverage:.2%} of the
target's own text); the embedding is the target's. It belongs to this target alone: sha256 of its weights
{sums}. This head: sha256 `{head_sha256}`.

Made by self-distillation (`python -m specswitch.models.train.head`): {prompts} prompts, {answers} answers of the
target's own ({answer_tokens:,} tokens, temperatures 0, 0.7 and 1), {trained_tokens:,} guessed tokens seen in {steps}
steps, {spent:.0f} s on {device}. Bounded by time: a second run gives other weights.

Greedy chain of 3 (4 is the most), on prompts that were not trained on:

| | accept length, first 32 tokens | 128 tokens | distinct 4-grams |
|---|---|---|---|
{rows}

Measured by walking the chain over the target's answers, in plain torch. Greedy text that repeats itself is easy to
draft: read the accept length beside the share of distinct 4-grams.

Serve it: `--speculative-algorithm EAGLE3 --speculative-draft-model-path` this directory, `--speculative-num-steps 3
--speculative-eagle-topk 1 --speculative-num-draft-tokens 4`.
"""


def write_report(report: dict[str, Any], path: Path) -> None:
    """training.json, whole or not at all."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def card(report: dict[str, Any]) -> str:
    """The card's text from training.json's content."""
    sums = ", ".join(f"{name} `{value}`" for name, value in report["target_sha256"].items())
    rows = [
        f"| {label} ({figures['prompts']}, {figures['dtype']}), {how} | {_cell(figures, kind, 'accept_first32')} | "
        f"{_cell(figures, kind, 'accept_128')} | {_cell(figures, kind, 'distinct4')} |"
        for label, figures in ((label, report[name]) for name, label in PARTS.items() if name in report)
        for kind, how in KINDS.items()
    ]
    fit = report["training"]
    return _CARD.format(
        **{k: report[k] for k in ("target", "head_sha256", "device", "prompts", "answers", "answer_tokens",
                                  "draft_vocab", "vocab", "coverage")},
        sums=sums, spent=sum(report["seconds"].values()), trained_tokens=fit["tokens"], steps=fit["steps"],
        rows="\n".join(rows),
    )  # fmt: skip


def _cell(figures: dict[str, Any], name: str, what: str) -> str:
    value = figures[f"{name}_{what}"]
    return "" if value is None else f"{value:.2f}"
