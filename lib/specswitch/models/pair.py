"""Where the trained tiny pair lies, and whether its files are the ones that were measured.

Plain Python: callers need no torch.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

DATA = Path(__file__).parent / "data"
MANIFEST = "manifest.json"
HELD_OUT = "heldout.jsonl"


class DamagedPairError(RuntimeError):
    """A file of the pair is missing or is not the one that was recorded."""


def target_dir() -> Path:
    """Directory of the trained target: config, weights, tokenizer."""
    return DATA / "tiny-target"


def draft_dir() -> Path:
    """Directory of the trained EAGLE-3 draft: config and weights; the tokenizer is the target's."""
    return DATA / "tiny-draft"


def held_out_file() -> Path:
    """Held-out prompts, one `{"text", "kind": "prose" | "code", "source"}` a line."""
    return DATA / HELD_OUT


def held_out_prompts(kind: str | None = None) -> list[str]:
    """Texts of the held-out prompts, all or of one kind, in file order."""
    lines = held_out_file().read_text(encoding="utf-8").split("\n")
    prompts = [json.loads(line) for line in lines if line]
    return [p["text"] for p in prompts if kind in (None, p["kind"])]


def verify_checksums(directory: Path = DATA) -> dict[str, str]:
    """Compare every file that the manifest lists; returns {relative path: sha256}.

    Raises DamagedPairError naming the first file that is missing or differs.
    """
    manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    for name, recorded in manifest["sha256"].items():
        path = directory / name
        if not path.is_file():
            raise DamagedPairError(f"{path} is missing: check the file out again")
        found = sha256(path)
        if found != recorded:
            raise DamagedPairError(f"{path}: sha256 {found}, recorded {recorded}: check the file out again")
    return dict(manifest["sha256"])


def write_manifest(directory: Path = DATA) -> None:
    """Record the sha256 of every file of the pair in `directory`. Done when the weights are made anew."""
    files = sorted(p for d in ("tiny-target", "tiny-draft") for p in (directory / d).iterdir() if p.is_file())
    files.append(directory / HELD_OUT)
    sums = {p.relative_to(directory).as_posix(): sha256(p) for p in files}
    size = sum(p.stat().st_size for p in files if p.parent != directory)
    content = {"sha256": sums, "pair_bytes": size}
    (directory / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
