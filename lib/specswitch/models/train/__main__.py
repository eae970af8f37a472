"""`python -m specswitch.models.train --out DIR`: the pair from text to checkpoints in one command."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from specswitch.models.train import corpus as corpora
from specswitch.models.train import sources
from specswitch.models.train.recipe import DRAFT_ONLY, FROM_SCRATCH, FULL, GOING_ON, MINIATURE, Recipe
from specswitch.models.train.run import run


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, make the corpus if there is none, train."""
    parser = argparse.ArgumentParser(prog="python -m specswitch.models.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory for tiny-target and tiny-draft")
    parser.add_argument("--minutes", type=float, default=8.0, help="training time, all stages together")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--corpus", type=Path, help="tokenised text; made here if the file does not exist")
    parser.add_argument("--text", type=Path, help="directory to download the text into (default: OUT/text)")
    parser.add_argument("--begin-with", type=Path, help="go on from the pair in this directory")
    parser.add_argument("--only-draft", action="store_true", help="with --begin-with: leave the target alone")
    parser.add_argument(
        "--no-compile", action="store_true", help="no torch.compile: starts at once, runs slower"
    )
    parser.add_argument(
        "--miniature", action="store_true", help="toy sizes on this interpreter's own library"
    )
    options = parser.parse_args(arguments)
    if options.only_draft and not options.begin_with:
        parser.error("--only-draft needs --begin-with: a draft is trained for a target")
    stages = DRAFT_ONLY if options.only_draft else GOING_ON if options.begin_with else FROM_SCRATCH
    recipe = MINIATURE if options.miniature else FULL
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.corpus or options.out / "corpus.npz"
    if not file.exists():
        make_corpus(file, options.text or options.out / "text", recipe, options.miniature)
    run(
        corpora.load(file), recipe, stages, options.out, options.minutes * 60, torch.device(options.device),
        fast=options.device == "cuda" and not options.no_compile, begin_with=options.begin_with,
    )  # fmt: skip


def make_corpus(file: Path, text: Path, recipe: Recipe, miniature: bool) -> None:
    """Fetch the text (unless it lies there already) and tokenise it."""
    if miniature:
        found = list(sources.own_library())
    else:
        if not text.exists():
            sources.fetch(text)
        found = list(sources.documents(text))
    corpora.save(corpora.build(found, recipe.shape.vocab), file)


if __name__ == "__main__":
    main()
