"""What this machine has and lacks: engine version, packages, plugin entry points, device, memory."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil
from packaging.requirements import Requirement

from specswitch.serving import model_files
from specswitch.serving.flags import ServerFlags
from specswitch.serving.gpus import count_gpus, list_gpus

ENTRY_POINT_GROUPS = ("sglang.srt.plugins", "sglang.srt.platforms")
# What the lean installation leaves out and a GPU server loads.
GPU_PACKAGES = ("flashinfer-cubin", "sgl-deep-gemm", "nvidia-cutlass-dsl")
SYSTEM_BYTES = 3 << 30  # three processes with torch loaded


@dataclass(frozen=True, slots=True)
class Missing:
    """One thing that this machine lacks, and what to do."""

    what: str
    cure: str


def engine_version() -> str | None:
    """Version of the installed sglang; None if there is none."""
    try:
        return importlib.metadata.version("sglang")
    except importlib.metadata.PackageNotFoundError:
        return None


def tested_engine_version() -> str | None:
    """The engine version that this Specswitch is pinned to in its own package metadata."""
    for requirement in _own_requirements():
        if requirement.name == "sglang":
            return next((s.version for s in requirement.specifier if s.operator == "=="), None)
    return None


def missing_packages() -> list[Missing]:
    """Direct dependencies that are not installed or not in the version asked for."""
    found = []
    for requirement in _own_requirements():
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found.append(
                Missing(f"package {requirement.name} is not installed", f"pip install '{requirement}'")
            )
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            what = f"{requirement.name} {version} is installed, {requirement.specifier} is needed"
            found.append(Missing(what, f"pip install '{requirement}'"))
    return found


def missing_entry_points() -> list[Missing]:
    """Engine plugin groups in which Specswitch is not registered: such a server would be a stock SGLang."""
    return [
        Missing(f"no entry point specswitch in {group}", "install this package again: pip install -e .")
        for group in ENTRY_POINT_GROUPS
        if not any(e.name == "specswitch" for e in importlib.metadata.entry_points(group=group))
    ]


def device_of(flags: ServerFlags) -> str:
    """The device that the flags ask for, else what the machine has: cuda or cpu."""
    return flags.device or ("cuda" if count_gpus() else "cpu")


def missing_for_device(flags: ServerFlags) -> list[Missing]:
    """What the device lacks: GPUs, their packages, memory for the weights."""
    found = []
    weights = sum(
        model_files.weight_bytes(Path(d))
        for d in (flags.model_path, flags.speculative_draft_model_path)
        if d is not None and Path(d).is_dir()
    )
    if platform.system() != "Linux":
        found.append(Missing(f"{platform.system()} is not Linux", "serve on Linux: supervision needs it"))
    if flags.device == "cpu":
        free = psutil.virtual_memory().available
        if weights + SYSTEM_BYTES > free:
            what = f"{free / 2**30:.1f} GiB of memory are free, {(weights + SYSTEM_BYTES) / 2**30:.1f} are needed"
            found.append(Missing(what, "stop other servers or take a smaller model"))
        return found
    gpus = list_gpus()
    if not gpus:
        found.append(Missing("no NVIDIA GPU is visible", "add --device cpu for the CPU reference platform"))
        return found
    if len(gpus) < flags.tensor_parallel_size:
        what = f"{len(gpus)} GPUs for tensor parallel size {flags.tensor_parallel_size}"
        found.append(Missing(what, "lower --tp or make more GPUs visible"))
    share = weights / flags.tensor_parallel_size
    small = [g for g in gpus[: flags.tensor_parallel_size] if g.free_mib * 2**20 < share]
    if small:
        what = f"GPU {small[0].index} has {small[0].free_mib} MiB free, the weights need {share / 2**20:.0f}"
        found.append(Missing(what, "free the GPU or raise --tp"))
    for name in GPU_PACKAGES:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found.append(Missing(f"package {name} is not installed", "install the full lock: PROFILE=full"))
    return found


def _own_requirements() -> list[Requirement]:
    try:
        texts = importlib.metadata.requires("specswitch") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Requirement(t) for t in texts]
