"""Reader of the binary step log that a server appends to while it runs.

An 8-byte magic, then fixed-width little-endian records. A tail that is cut in mid-record (the server was
killed, or is just writing) costs that record only.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from specswitch.metrics.records import StepRecord
from specswitch.results.layout import DamagedError

MAGIC = b"SPSWST01"
STEP_DTYPE = np.dtype(
    [
        ("t_s", "<f8"),
        ("batch", "<i4"),
        ("mode", "<i4"),
        ("proposed", "<i4"),
        ("accepted", "<i4"),
        ("emitted", "<i4"),
        ("synced", "<i4"),
        ("switched", "<i4"),
        ("pad", "<i4"),
        ("step_ms", "<f8"),
    ]
)


def step_log(steps_dir: Path, rank: int = 0) -> Path:
    """Where the scheduler of this tensor-parallel rank writes its steps."""
    return steps_dir / f"steps-rank{rank}.bin"


def count_steps(path: Path) -> int:
    """Number of whole records in the log; 0 while there is no file."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return 0
    return max(0, size - len(MAGIC)) // STEP_DTYPE.itemsize


def read_steps(path: Path, start_s: float = -math.inf, end_s: float = math.inf) -> list[StepRecord]:
    """The steps whose result was known in [start_s, end_s) (CLOCK_MONOTONIC seconds), in order.

    An empty file has no steps. Raises FileNotFoundError, or DamagedError for a file of another kind.
    """
    data = path.read_bytes()
    if not data:
        return []
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise DamagedError(f"{path} does not begin with {MAGIC!r}: not a step log of this version")
    whole = max(0, len(data) - len(MAGIC)) // STEP_DTYPE.itemsize
    rows = np.frombuffer(data, STEP_DTYPE, whole, len(MAGIC)) if whole else np.empty(0, STEP_DTYPE)
    rows = rows[(rows["t_s"] >= start_s) & (rows["t_s"] < end_s)]
    return [
        StepRecord(
            t_s=t_s,
            batch=batch,
            mode="speculative" if mode else "plain",
            proposed=proposed,
            accepted=accepted,
            emitted=emitted,
            synced=synced,
            switched=bool(switched),
            step_ms=None if math.isnan(step_ms) else step_ms,
        )
        for t_s, batch, mode, proposed, accepted, emitted, synced, switched, _, step_ms in rows.tolist()
    ]
