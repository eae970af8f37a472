"""The node that a bundle is for: its Python and platform, and which wheels and markers fit them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags

from specswitch.bundle.errors import BundleError

PYTHONS = ("3.11", "3.12")
# The glibc that the pinned engine's own wheel asks for.
PLATFORM = "manylinux_2_34_x86_64"
# Older names of three glibc versions; and the glibc before which no wheel was built.
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST_GLIBC = 5
# The node's patch release is not asked for; markers of the locks set only early ones apart.
_LATE_PATCH = 99


@dataclass(frozen=True)
class Target:
    """python: `3.12`; platform: `manylinux_2_34_x86_64`, glibc version and processor.

    Raises:
        BundleError: a Python that the locks are not for, or a platform that is no manylinux one.
    """

    python: str
    platform: str

    def __post_init__(self) -> None:
        if self.python not in PYTHONS:
            raise BundleError(
                f"python={self.python!r}: the locks are for {' and '.join(PYTHONS)}, give one of these"
            )
        _ = self.glibc

    @cached_property
    def glibc(self) -> tuple[int, str]:
        """Minor version of glibc 2, and the processor."""
        found = re.fullmatch(r"manylinux_2_(\d+)_(x86_64|aarch64)", self.platform)
        if found is None or int(found[1]) < _OLDEST_GLIBC:
            raise BundleError(
                f"platform={self.platform!r}: give manylinux_2_N_x86_64 or manylinux_2_N_aarch64, where 2.N is the "
                "node's glibc (the first line of `ldd --version` there)"
            )
        return int(found[1]), found[2]

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """Platform tags that run there, the newest first: a wheel for an older glibc runs on a newer one."""
        minor, processor = self.glibc
        tags = []
        for older in range(minor, _OLDEST_GLIBC - 1, -1):
            tags.append(f"manylinux_2_{older}_{processor}")
            if older in _LEGACY:
                tags.append(f"{_LEGACY[older]}_{processor}")
        return (*tags, f"linux_{processor}")

    @cached_property
    def ranks(self) -> dict[Tag, int]:
        """Every wheel tag that the node takes, with its rank: 0 is the best."""
        version = tuple(int(part) for part in self.python.split("."))
        interpreter = f"cp{version[0]}{version[1]}"
        tags = [
            *cpython_tags(version, abis=[interpreter], platforms=self.platforms),
            *compatible_tags(version, interpreter=interpreter, platforms=self.platforms),
        ]
        return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}

    def wants(self, marker: Marker | None) -> bool:
        """Whether a requirement with this environment marker is for the node."""
        return marker is None or marker.evaluate(
            {
                "python_version": self.python,
                "python_full_version": f"{self.python}.{_LATE_PATCH}",
                "implementation_name": "cpython",
                "implementation_version": f"{self.python}.{_LATE_PATCH}",
                "platform_python_implementation": "CPython",
                "os_name": "posix",
                "sys_platform": "linux",
                "platform_system": "Linux",
                "platform_machine": self.glibc[1],
            }
        )
