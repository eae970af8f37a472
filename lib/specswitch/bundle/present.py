"""What the node has already, read from its `pip list --format=freeze`, and the rule of what need not be carried.

A package is left out if the node has it in the locked version; a local label does not count (2.11.0+cu130 is
2.11.0). The GPU stack (torch, Triton, and the CUDA libraries that torch brings) belongs to the node's driver and is
left out in whatever version it is there; where torch is there, so are its CUDA libraries, listed or not. Everything
else that is missing or has another version goes in and comes first on the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import InvalidVersion, Version

from specswitch.bundle.errors import BundleError
from specswitch.explain import read_given_text

GPU_STACK = frozenset({"torch", "triton", "torchvision", "torchaudio", "torchcodec"})
CUDA_LIBRARIES = frozenset({"cuda-toolkit", "cuda-bindings", "cuda-pathfinder"})
# Under NVIDIA's prefix, but wanted by the engine rather than brought by torch: the general rule holds.
NOT_TORCH = re.compile(r"nvidia-(cudnn-frontend|cutlass-dsl.*|ml-py)")


@dataclass(frozen=True)
class Present:
    """A package of the node; `version` is None where its line names a place instead of a version."""

    version: Version | None

    def __str__(self) -> str:
        return str(self.version or "an unknown version")


def read_present(path: Path) -> dict[NormalizedName, Present]:
    """The packages in a `pip freeze` or `pip list --format=freeze`.

    Raises:
        BundleError: no such file, no package in it, or a line that is neither.
    """
    try:
        lines = read_given_text(path).splitlines()
    except ValueError as problem:
        raise BundleError(f"present={problem}: {_CURE}") from problem
    found: dict[NormalizedName, Present] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("#", "-")):
            continue
        parts = re.fullmatch(r"([A-Za-z0-9][\w.-]*)\s*(?:===?\s*(\S+)|@\s*\S.*)", text)
        if parts is None:
            raise BundleError(
                f"present={str(path)!r}, line {number}: {text[:60]!r} is no NAME==VERSION: {_CURE}"
            )
        found[canonicalize_name(parts[1])] = Present(_version(parts[2]))
    if not found:
        raise BundleError(f"present={str(path)!r} names no package: {_CURE}")
    return found


def reason_to_leave_out(
    name: NormalizedName, version: Version, present: Mapping[NormalizedName, Present]
) -> str | None:
    """Why the node needs no copy of this package; None if it does."""
    there = present.get(name)
    if there is not None and there.version is not None and there.version.public == version.public:
        return f"the node has {there}"
    if name in GPU_STACK and there is not None:
        return f"GPU stack: the node keeps its {there}"
    if _is_cuda_library(name) and (there is not None or NormalizedName("torch") in present):
        return (
            f"GPU stack: the node keeps its {there}" if there is not None else "comes with the node's torch"
        )
    return None


_CURE = "write it on the node with `python3 -m pip list --format=freeze`"


def _is_cuda_library(name: NormalizedName) -> bool:
    return name in CUDA_LIBRARIES or (name.startswith("nvidia-") and NOT_TORCH.fullmatch(name) is None)


def _version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
