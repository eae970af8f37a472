"""Directories with a real model's shape and no weights, for `--load-format dummy`.

Speed depends on shapes, not on what the weights say, so a machine without model files can still measure steps.
Acceptance is then simulated: every figure made this way is labelled synthetic. A shape is a folder
`data/shapes/NAME/` with `target/config.json` and `draft/config.json`, a one-layer EAGLE-3 head of the target's
width with a draft vocabulary of 32,000: `llama-8b` has the sizes of Llama-3.1-8B, `moe-30b-a3b` those of
Qwen3-30B-A3B.
"""

from __future__ import annotations

import shutil
from pathlib import Path

SHAPES = Path(__file__).parent / "data" / "shapes"


def names() -> list[str]:
    """The shapes that there are."""
    return sorted(path.name for path in SHAPES.iterdir() if path.is_dir())


def shape_dirs(name: str) -> tuple[Path, Path]:
    """Directories of the target and of the draft of a shape.

    Raises:
        KeyError: no such shape; the message lists the known ones.
    """
    if name not in names():
        raise KeyError(f"no shape {name!r}: known are {', '.join(names())}")
    return SHAPES / name / "target", SHAPES / name / "draft"


def write_shape(name: str, directory: Path) -> tuple[Path, Path]:
    """Copy a shape to `directory`/target and `directory`/draft; returns both. Raises as `shape_dirs`."""
    copies = []
    for source in shape_dirs(name):
        copies.append(directory / source.name)
        copies[-1].mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / "config.json", copies[-1] / "config.json")
    return copies[0], copies[1]
