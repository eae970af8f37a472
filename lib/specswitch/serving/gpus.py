"""The GPUs as `nvidia-smi` reports them, and the wait for memory that a dead server still holds."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import time
from dataclasses import dataclass

logger = logging.getLogger(__name__)

SLACK_MIB = 512
TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in MiB."""

    index: int
    name: str
    total_mib: int
    free_mib: int


def list_gpus() -> list[Gpu]:
    """Every GPU that CUDA_VISIBLE_DEVICES lets this process see; empty without a driver."""
    if shutil.which("nvidia-smi") is None or os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in (
        "",
        "-1",
    ):
        return []
    query = "--query-gpu=index,uuid,name,memory.total,memory.free"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as e:
        logger.warning("nvidia-smi failed: %s", e)
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = None if visible is None else {v.strip() for v in visible.split(",")}
    found = []
    for line in answer.stdout.splitlines():
        index, uuid, name, total, free = (part.strip() for part in line.split(","))
        if chosen is None or index in chosen or uuid in chosen:
            found.append(Gpu(int(index), name, int(float(total)), int(float(free))))
    return found


def count_gpus() -> int:
    """How many GPUs this process may use."""
    return len(list_gpus())


def wait_until_released(before: list[Gpu], timeout_s: float = 60.0) -> bool:
    """Wait until every GPU has the free memory back that it had `before`, but for 512 MiB.

    The driver frees a dead process's memory late, and the next server sizes its pools by what is free.
    Returns False, with a warning, if that does not happen in `timeout_s` (another process may have taken it).
    """
    wanted = {g.index: g.free_mib - SLACK_MIB for g in before}
    deadline_s = time.monotonic() + timeout_s
    while wanted:
        short = [g for g in list_gpus() if g.index in wanted and g.free_mib < wanted[g.index]]
        if not short:
            return True
        if time.monotonic() > deadline_s:
            logger.warning("GPU %s still lacks memory that was free before", [g.index for g in short])
            return False
        time.sleep(0.5)
    return True
