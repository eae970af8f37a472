"""`python -m specswitch.models.train.head --target DIR --out DIR --seconds N`: a head for a model in one command."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch

from specswitch.models import pair
from specswitch.models.given_target import UnsupportedTargetError
from specswitch.models.train.head.answers import NEW_TOKENS
from specswitch.models.train.head.fit import RATE
from specswitch.models.train.head.prompts import UnusableTextError
from specswitch.models.train.head.run import run

QUESTIONS = pair.DATA / "questions.jsonl"


def seconds(text: str) -> float:
    """A time above 0. Raises argparse.ArgumentTypeError, which names what was given."""
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not (math.isfinite(given) and given > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0")
    return given


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and train. Exit code 1 after an interrupt, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m specswitch.models.train.head", description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="checkpoint directory of a Llama")
    parser.add_argument(
        "--out", type=Path, required=True,
        help="directory for prompts, answers, head and training.json; what lies there already is used",
    )  # fmt: skip
    parser.add_argument("--seconds", type=seconds, default=900.0, help="time for all stages together")
    parser.add_argument("--draft-vocab", type=int, default=16384, help="tokens that the head can draft")
    parser.add_argument("--rows", type=int, help="conversations per training step")
    parser.add_argument("--rate", type=float, default=RATE, help="peak learning rate")
    parser.add_argument("--new-tokens", type=int, default=NEW_TOKENS, help="longest answer to learn from")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument(
        "--questions", type=Path, default=QUESTIONS,
        help='measure on these texts too, one {"text": ...} a line (default: 40 everyday questions)',
    )  # fmt: skip
    parser.add_argument("--begin-with", type=Path, help="go on from the head in this directory")
    parser.add_argument("--only-measure", action="store_true", help="measure the head in OUT, train nothing")
    options = parser.parse_args(arguments)
    try:
        run(
            options.target, options.out, options.seconds, torch.device(options.device), options.draft_vocab,
            rows=options.rows, rate=options.rate, new_tokens=options.new_tokens, questions=options.questions,
            begin_with=options.begin_with, only_measure=options.only_measure,
        )  # fmt: skip
    except (UnsupportedTargetError, UnusableTextError) as problem:
        parser.error(str(problem))
    except KeyboardInterrupt:
        parser.exit(
            1,
            f"error: interrupted; prompts and answers that lie in {options.out} are used again by the same command\n",
        )


if __name__ == "__main__":
    main()
