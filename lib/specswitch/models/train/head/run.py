"""All stages in order, each result on disk before the next begins, all within one stretch of time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specswitch.models.checkpoint import WEIGHTS, load_pair, round_weights, save_draft, shape_of
from specswitch.models.given_target import load_target, read_config, target_shape
from specswitch.models.network import Draft, Shape, Target
from specswitch.models.pair import sha256
from specswitch.models.train.distill import draft_vocabulary
from specswitch.models.train.head.acceptance import measure
from specswitch.models.train.head.answers import NEW_TOKENS, load_answers, save_answers, write_answers
from specswitch.models.train.head.card import card, write_report
from specswitch.models.train.head.fit import RATE, train_head
from specswitch.models.train.head.frame import Frame, read_frame
from specswitch.models.train.head.prompts import load_prompts, read_texts, save_prompts, write_prompts
from specswitch.models.train.head.sizes import Sizes, free_memory, sizes_for

PROMPTS, ANSWERS, HEAD, REPORT = "prompts.jsonl", "answers.npz", "head", "training.json"
# Shares of the time, by whose end a stage is over. Training gets what is left up to where measuring begins.
PROMPTS_UNTIL, ANSWERS_UNTIL, TRAINING_UNTIL = 0.05, 0.25, 0.94
LONGEST_PROMPT = 512
FROM_TARGET = ("bos_token_id", "eos_token_id", "pad_token_id", "rope_theta", "rope_parameters", "hidden_act")


@dataclass(slots=True)
class Job:
    """What all stages share. `shape` has the draft's vocabulary size in it; `dtype` is the target's."""

    directory: Path
    out: Path
    seconds: float
    device: torch.device
    new_tokens: int
    shape: Shape
    frame: Frame
    dtype: torch.dtype
    target: Target
    sizes: Sizes
    start: float = field(default_factory=time.monotonic)

    def log(self, line: str) -> None:
        """A line with the time since the start."""
        print(f"[{time.monotonic() - self.start:6.1f} s] {line}", flush=True)  # noqa: T201

    def until(self, share: float) -> float:
        """Seconds left until this share of the time is over."""
        return max(0.0, self.seconds * share - (time.monotonic() - self.start))


def run(
    directory: Path,
    out: Path,
    seconds: float,
    device: torch.device,
    draft_vocab: int,
    *,
    rows: int | None = None,
    rate: float = RATE,
    new_tokens: int = NEW_TOKENS,
    questions: Path | None = None,
    begin_with: Path | None = None,
    only_measure: bool = False,
) -> Path:
    """Train a head for the target in `directory` for about `seconds`, loading included. Returns OUT/head.

    Leaves prompts.jsonl, answers.npz, head/ and training.json in `out`; prompts.jsonl and answers.npz that lie
    there already are used instead of made. rows: conversations per training step. rate: peak learning rate.
    questions: a file of texts that the head is measured on besides the held-out prompts. begin_with: a head's
    directory to go on from, with its vocabulary. only_measure: leave the head in `out` as it is.
    Raises UnsupportedTargetError for a target that is no plain Llama, UnusableTextError for too little text.
    """
    if begin_with is not None:
        draft_vocab = shape_of(directory, begin_with).draft_vocab
    job = _begin(directory, out, seconds, device, draft_vocab, rows, new_tokens)
    if only_measure:
        report = json.loads((out / REPORT).read_text(encoding="utf-8")) if (out / REPORT).exists() else {}
    else:
        report = _train(job, rate, begin_with)
    report |= _measured(job, questions)
    write_report(report, out / REPORT)
    if "training" in report:
        (out / HEAD / "README.md").write_text(card(report), encoding="utf-8")
    job.log("done")
    return out / HEAD


def _begin(
    directory: Path,
    out: Path,
    seconds: float,
    device: torch.device,
    draft_vocab: int,
    rows: int | None,
    new_tokens: int,
) -> Job:
    start, whole = time.monotonic(), target_shape(directory)
    shape = replace(whole, draft_vocab=min(draft_vocab, whole.vocab))
    frame = read_frame(directory)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    target = load_target(directory, shape, dtype).to(device)
    if device.type == "cuda":
        # It plans anew for every shape, and a growing cache has a new one at each token.
        torch.backends.cuda.enable_cudnn_sdp(False)
    sizes = sizes_for(shape, device, min(shape.context, 128 + new_tokens))
    sizes = replace(sizes, train_rows=rows or sizes.train_rows)
    out.mkdir(parents=True, exist_ok=True)
    job = Job(directory, out, seconds, device, new_tokens, shape, frame, dtype, target, sizes, start)
    job.log(f"target {directory.name} on {device}, {dtype}, {sizes}")
    return job


def _train(job: Job, rate: float, begin_with: Path | None) -> dict[str, Any]:
    """Prompts, answers, head; what is to be told of them."""
    shape, frame, sizes, device = job.shape, job.frame, job.sizes, job.device
    marks = [time.monotonic()]
    if not (own := job.out / PROMPTS).exists():
        made = write_prompts(job.target, frame, device, sizes.answer_rows, job.until(PROMPTS_UNTIL), job.log)
        save_prompts(made, own)
    prompts = load_prompts(own)
    train, held_out = (_fitting(job, texts) for texts in (prompts.train, prompts.held_out))
    job.log(f"prompts: {len(train)} to train on, {len(held_out)} held out")
    marks.append(time.monotonic())

    if not (text := job.out / ANSWERS).exists():
        said = write_answers(
            job.target, train, frame.ends, device, sizes.answer_rows, job.until(ANSWERS_UNTIL), job.log,
            job.new_tokens,
        )  # fmt: skip
        save_answers(said, text)
        free_memory()
    answers = load_answers(text)
    ids = torch.from_numpy(answers.answer_ids().astype(np.int64))
    begun = None
    if begin_with is not None:
        begun = load_pair(job.directory, begin_with, torch.float32)[1].to(device)
    d2t = draft_vocabulary(ids, shape) if begun is None else begun.d2t.cpu()
    known = torch.zeros(shape.vocab, dtype=torch.bool)
    known[d2t + torch.arange(shape.draft_vocab)] = True
    coverage = known[ids].float().mean().item()
    job.log(f"draft vocabulary: {shape.draft_vocab} of {shape.vocab} tokens, {coverage:.4f} of the answers")
    marks.append(time.monotonic())

    config = read_config(job.directory)

    def keep(head: Draft) -> None:
        save_draft(
            head, shape, job.out / HEAD, {k: config[k] for k in FROM_TARGET if config.get(k) is not None}
        )

    seconds = job.until(TRAINING_UNTIL)
    head, figures = train_head(
        job.target, answers, d2t.to(device), sizes.train_rows, seconds, keep, job.log, rate, begin_with=begun
    )
    round_weights(head)
    keep(head)
    del head
    free_memory()
    job.log("head saved")
    marks.append(time.monotonic())
    stages = zip(("prompts", "answers", "training"), np.diff(marks), strict=True)
    return {
        "target": job.directory.name,
        "target_sha256": {p.name: sha256(p) for p in sorted(job.directory.glob("*.safetensors"))},
        "vocab": shape.vocab,
        "draft_vocab": shape.draft_vocab,
        "coverage": coverage,
        "aux_layers": list(shape.aux_layers),
        "prompts": len(train),
        "held_out_prompts": len(held_out),
        "answers": len(answers),
        "answer_tokens": len(ids),
        "training": figures | {"began_with": sha256(begin_with / WEIGHTS) if begin_with else None},
        "seconds": {name: round(float(spent), 1) for name, spent in stages},
        "device": _name(device),
        "torch": torch.__version__,
    }


def _measured(job: Job, questions: Path | None) -> dict[str, Any]:
    """What the saved head is worth: the files themselves, in the dtype in which this device serves them."""
    _, head = load_pair(job.directory, job.out / HEAD, job.dtype)
    head = head.to(job.device)
    texts = {"held_out": load_prompts(job.out / PROMPTS).held_out}
    if questions is not None:
        texts["questions"] = read_texts(questions)
    found: dict[str, Any] = {"head_sha256": sha256(job.out / HEAD / WEIGHTS)}
    for number, (name, asked) in enumerate(texts.items(), start=1):
        seconds = job.until(TRAINING_UNTIL + (1 - TRAINING_UNTIL) * number / len(texts))
        figures = measure(job.target, head, _fitting(job, asked), job.frame.ends, job.sizes, seconds)
        found[name] = figures | {"device": _name(job.device), "dtype": str(job.dtype).removeprefix("torch.")}
        job.log(f"{name}: {figures}")
    return found


def _fitting(job: Job, texts: Iterable[str]) -> list[list[int]]:
    """Prompts of texts, those that leave room for an answer."""
    room = min(LONGEST_PROMPT, job.shape.context - job.new_tokens)
    return [ids for ids in map(job.frame.encode, texts) if len(ids) <= room]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
