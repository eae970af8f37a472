"""`python -m specswitch.models.train --out DIR`: the pair from text to checkpoints in one command."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from specswitch.models import checkpoint
from specswitch.models.train import corpus as corpora
from specswitch.models.train import sources
from specswitch.models.train.distill import draft_vocabulary, write_text
from specswitch.models.train.draft import train_draft
from specswitch.models.train.evaluate import evaluate
from specswitch.models.train.recipe import FULL, MINIATURE, Recipe
from specswitch.models.train.target import held_out_loss, train_target
from specswitch.models.train.tokenizer_files import save_tokenizer
from specswitch.models.train.unlikelihood import break_loops


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and run; each stage's result is on disk before the next begins."""
    parser = argparse.ArgumentParser(prog="python -m specswitch.models.train", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="directory to write tiny-target and tiny-draft into"
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="training time, all stages together")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--corpus", type=Path, help="tokenised text; made here if the file does not exist")
    parser.add_argument("--text", type=Path, help="directory to download the text into (default: OUT/text)")
    parser.add_argument(
        "--miniature", action="store_true", help="toy sizes on this interpreter's own library"
    )
    options = parser.parse_args(arguments)
    recipe = MINIATURE if options.miniature else FULL
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.corpus or options.out / "corpus.npz"
    if not file.exists():
        make_corpus(file, options.text or options.out / "text", recipe, options.miniature)
    run(corpora.load(file), recipe, options.out, options.minutes * 60, torch.device(options.device))


def make_corpus(file: Path, text: Path, recipe: Recipe, miniature: bool) -> None:
    """Fetch the text (unless it lies there already) and tokenise it."""
    if miniature:
        found = list(sources.own_library())
    else:
        if not text.exists():
            sources.fetch(text)
        found = list(sources.documents(text))
    corpora.save(corpora.build(found, recipe.shape.vocab), file)


def run(corpus: corpora.Corpus, recipe: Recipe, out: Path, seconds: float, device: torch.device) -> None:
    """All stages. Leaves tiny-target, tiny-draft, heldout.jsonl and training.json in `out`."""
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", flush=True)

    shape = recipe.shape
    stream = torch.from_numpy(corpus.train.astype(np.int16)).to(device)
    held_out = {k: torch.from_numpy(v.astype(np.int16)).to(device) for k, v in corpus.held_out.items()}
    (out / "heldout.jsonl").write_text(
        "".join(json.dumps(p) + "\n" for p in corpus.prompts), encoding="utf-8"
    )

    target, target_tokens = train_target(
        shape, stream, seconds * recipe.target_share, recipe.target_batch, log
    )
    checkpoint.save_target(target, shape, out / "tiny-target")
    save_tokenizer(corpus.tokenizer, shape, out / "tiny-target")
    log(f"held-out loss {[(k, held_out_loss(target, v)) for k, v in held_out.items()]}")
    break_loops(target, shape, stream, seconds * recipe.loops_share, recipe.loops_batch, log)
    checkpoint.round_weights(target)
    log(f"held-out loss {[(k, held_out_loss(target, v)) for k, v in held_out.items()]}")
    checkpoint.save_target(target, shape, out / "tiny-target")

    text = write_text(
        target, shape, stream, seconds * recipe.text_share, recipe.text_batch, recipe.text_length, log
    )
    draft, draft_tokens = train_draft(
        shape, target, text, stream, draft_vocabulary(text, shape), seconds * recipe.draft_share,
        recipe.draft_batch, log, lambda unfinished: checkpoint.save_draft(unfinished, shape, out / "tiny-draft"),
    )  # fmt: skip
    checkpoint.round_weights(draft)
    checkpoint.save_draft(draft, shape, out / "tiny-draft")
    report = {
        "target_tokens": target_tokens,
        "distilled_tokens": text.numel(),
        "draft_tokens": draft_tokens,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "seconds": round(time.monotonic() - start, 1),
        "held_out": evaluate(target, draft, held_out, recipe.evaluated_prompts),
    }
    (out / "training.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    log(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
