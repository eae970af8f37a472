"""The engine's kernel wheel, cut to one kind of GPU.

It holds one build of its common operations per architecture, of which a process loads one, and the fa3 kernels:
most of its size, and loaded by the fa3 attention backend alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from specswitch.bundle.errors import BundleError

DISTRIBUTION = "sglang-kernel"
# The builds in the wheel of the pinned engine; its loader takes sm90 on compute capability 9.0, else sm100.
ARCHITECTURES = {"sm90": "Hopper (H100, H200)", "sm100": "every other GPU"}
FA3 = "fa3"
_BUILD = re.compile(r"sgl_kernel/(sm\d+)/.+")
_FA3_FILE = re.compile(r"sgl_kernel/flash_ops\.[^/]+")


@dataclass(frozen=True)
class Cut:
    """Keep the builds of `architectures`, and the fa3 kernels or not."""

    architectures: frozenset[str]
    fa3: bool


def parse_cut(text: str) -> Cut | None:
    """`sm90`, `sm90+fa3`, `sm90+sm100`, ...; None for `all`, which cuts nothing. Raises BundleError."""
    if text == "all":
        return None
    parts = text.split("+")
    architectures = frozenset(parts) - {FA3}
    if not architectures or not architectures <= set(ARCHITECTURES):
        known = ", ".join(f"{name} ({gpus})" for name, gpus in ARCHITECTURES.items())
        raise BundleError(
            f"kernels={text!r}: give all, or of {known} one or more, joined by +; +{FA3} keeps fa3's kernels"
        )
    return Cut(architectures, FA3 in parts)


def files_to_cut(names: Iterable[str], cut: Cut) -> frozenset[str]:
    """Which files of the wheel go.

    Raises:
        BundleError: the wheel has no build for an architecture that is to be kept: it is another version.
    """
    names = tuple(names)
    builds = {name: found[1] for name in names if (found := _BUILD.fullmatch(name))}
    if missing := cut.architectures - set(builds.values()):
        raise BundleError(
            f"kernels: this {DISTRIBUTION} has no build for {', '.join(sorted(missing))}, only for "
            f"{', '.join(sorted(set(builds.values()))) or 'none'}: give one of these, or kernels=all"
        )
    others = {name for name, architecture in builds.items() if architecture not in cut.architectures}
    fa3 = set() if cut.fa3 else {name for name in names if _FA3_FILE.fullmatch(name)}
    return frozenset(others | fa3)
