"""All stages in order, each result on disk before the next begins, all within one stretch of time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from specswitch.models.checkpoint import WEIGHTS, load_pair, round_weights, save_draft
from specswitch.models.given_target import load_target, read_config, target_shape
from specswitch.models.network import Draft
from specswitch.models.pair import sha256
from specswitch.models.train.distill import draft_vocabulary
from specswitch.models.train.head.acceptance import measure
from specswitch.models.train.head.answers import NEW_TOKENS, load_answers, save_answers, write_answers
from specswitch.models.train.head.card import card, write_report
from specswitch.models.train.head.fit import train_head
from specswitch.models.train.head.frame import read_frame
from specswitch.models.train.head.prompts import load_prompts, save_prompts, write_prompts
from specswitch.models.train.head.sizes import free_memory, sizes_for

PROMPTS, ANSWERS, HEAD, REPORT = "prompts.jsonl", "answers.npz", "head", "training.json"
# Shares of the time. Training gets what the others leave, up to where measuring has to begin.
PROMPTS_SHARE, ANSWERS_SHARE, MEASURE_SHARE = 0.05, 0.20, 0.08
LONGEST_PROMPT = 512
FROM_TARGET = ("bos_token_id", "eos_token_id", "pad_token_id", "rope_theta", "rope_parameters", "hidden_act")


def run(
    directory: Path,
    out: Path,
    seconds: float,
    device: torch.device,
    draft_vocab: int,
    *,
    rows: int | None = None,
    new_tokens: int = NEW_TOKENS,
) -> Path:
    """Train a head for the target in `directory` for about `seconds`, loading included. Returns OUT/head.

    Leaves prompts.jsonl, answers.npz, head/ and training.json in `out`; prompts.jsonl and answers.npz that lie
    there already are used instead of made. rows: conversations per training step.
    Raises UnsupportedTargetError for a target that is no plain Llama.
    """
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", flush=True)  # noqa: T201

    whole, config = target_shape(directory), read_config(directory)
    shape = replace(whole, draft_vocab=min(draft_vocab, whole.vocab))
    frame = read_frame(directory)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    target = load_target(directory, shape, dtype).to(device)
    sizes = sizes_for(shape, device, min(shape.context, 128 + new_tokens))
    sizes = replace(sizes, train_rows=rows or sizes.train_rows)
    out.mkdir(parents=True, exist_ok=True)
    log(f"target {directory.name} on {device}, {dtype}, {sizes}")

    if not (own := out / PROMPTS).exists():
        save_prompts(
            write_prompts(target, frame, device, sizes.answer_rows, seconds * PROMPTS_SHARE, log), own
        )
    prompts = load_prompts(own)
    train, held_out = (_fitting(map(frame.encode, texts), shape.context - new_tokens) for texts in
                       (prompts.train, prompts.held_out))  # fmt: skip
    log(f"prompts: {len(train)} to train on, {len(held_out)} held out")
    if not (text := out / ANSWERS).exists():
        time_left = seconds * (PROMPTS_SHARE + ANSWERS_SHARE) - (time.monotonic() - start)
        save_answers(
            write_answers(target, train, frame.ends, device, sizes.answer_rows, time_left, log, new_tokens),
            text,
        )
        free_memory()
    answers = load_answers(text)

    said = torch.from_numpy(answers.answer_ids().astype(np.int64))
    d2t = draft_vocabulary(said, shape)
    known = d2t + torch.arange(shape.draft_vocab)
    coverage = torch.isin(said, known).float().mean().item()
    log(f"draft vocabulary: {shape.draft_vocab} of {shape.vocab} tokens, {coverage:.4f} of the answers")

    def keep(head: Draft) -> None:
        save_draft(head, shape, out / HEAD, {k: config[k] for k in FROM_TARGET if config.get(k) is not None})

    training_time = seconds * (1 - MEASURE_SHARE) - (time.monotonic() - start)
    head, figures = train_head(target, answers, d2t.to(device), sizes.train_rows, training_time, keep, log)
    round_weights(head)
    keep(head)
    del head
    free_memory()
    log("head saved; measuring")

    # The files themselves, in the dtype in which they are served on this device.
    _, saved = load_pair(directory, out / HEAD, dtype)
    time_left = max(0.0, seconds - (time.monotonic() - start))
    held_figures = measure(target, saved.to(device), held_out, frame.ends, sizes, time_left)
    report = {
        "target": directory.name,
        "target_sha256": {p.name: sha256(p) for p in sorted(directory.glob("*.safetensors"))},
        "head_sha256": sha256(out / HEAD / WEIGHTS),
        "vocab": shape.vocab,
        "draft_vocab": shape.draft_vocab,
        "coverage": coverage,
        "aux_layers": list(shape.aux_layers),
        "prompts": len(train),
        "held_out_prompts": len(held_out),
        "answers": len(answers),
        "answer_tokens": len(said),
        "training": figures,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU",
        "dtype": str(dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "held_out": held_figures,
    }
    write_report(report, out / REPORT)
    (out / HEAD / "README.md").write_text(card(report), encoding="utf-8")
    log(f"done: {held_figures}")
    return out / HEAD


def _fitting(prompts: Iterable[list[int]], room: int) -> list[list[int]]:
    """Prompts that leave room for an answer."""
    return [p for p in prompts if len(p) <= min(room, LONGEST_PROMPT)]
