"""Which weights were served: a model directory's SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from specswitch.results.provenance import shorten

# Hashing 16 GB at every start would cost more than it tells; sizes stand in for such files.
HASHED_BYTES = 256 * 1024 * 1024
CHUNK = 1024 * 1024


def model_identity(model: str) -> dict[str, Any]:
    """`{"id", "sha256", "bytes", "hashed"}` of a model directory, ready for JSON.

    The digest is over names and contents of its files, in name order; of a file above 256 MiB over name and
    size (then `hashed` is "small files", else "all files"). A name that is no directory (a hub id) has None.
    """
    folder = Path(model)
    if not folder.is_dir():
        return {"id": shorten(model), "sha256": None, "bytes": None, "hashed": None}
    files = sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith("."))
    digest, total, complete = hashlib.sha256(), 0, True
    for file in files:
        size = file.stat().st_size
        total += size
        digest.update(f"{file.name}\0{size}\0".encode())
        if size > HASHED_BYTES:
            complete = False
            continue
        with file.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    hashed = "all files" if complete else "small files"
    return {"id": shorten(model), "sha256": digest.hexdigest(), "bytes": total, "hashed": hashed}
