"""The one plotly.js of a report: plotly's cartesian bundle, stored compressed as package data.

plotly.py ships the full bundle only, three times the size. The cartesian one has every trace type that
`plots` draws, and no maps or WebGL. `python -m specswitch.report.bundle` fetches it again from the npm
registry, for the plotly.js version that the installed plotly.py was made for.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from specswitch.results.files import write_atomically

STATIC = Path(__file__).parent / "static"
PACKAGE = "plotly.js-cartesian-dist-min"
FILES = ("plotly-cartesian.min.js", "LICENSE", "README.md")


class BundleError(RuntimeError):
    """The stored bundle is not the one that was recorded."""


def record() -> dict[str, Any]:
    """What is stored: `package`, `version`, `licence`, `trace_types`, `sha256` of the script, `sha256_gz`."""
    return json.loads((STATIC / "bundle.json").read_text(encoding="utf-8"))


@cache
def compressed() -> bytes:
    """The gzip'ed script.

    Raises:
        BundleError: the file's SHA-256 differs from the record.
    """
    packed = (STATIC / "plotly-cartesian.min.js.gz").read_bytes()
    found, wanted = hashlib.sha256(packed).hexdigest(), record()["sha256_gz"]
    if found != wanted:
        raise BundleError(
            f"plotly-cartesian.min.js.gz has SHA-256 {found}, expected {wanted}: "
            "restore the file, or fetch it again with `python -m specswitch.report.bundle`"
        )
    return packed


@cache
def trace_types() -> frozenset[str]:
    """The trace types that the bundle can draw. Others leave empty axes, without an error."""
    return frozenset(record()["trace_types"])


@cache
def base64_text() -> str:
    """The gzip'ed script as base64 text, ready to be put into a page."""
    return base64.b64encode(compressed()).decode("ascii")


def csp_source(script: bytes) -> str:
    """The Content-Security-Policy source expression that allows exactly this inline script."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(script).digest()).decode("ascii") + "'"


@cache
def script_csp_source() -> str:
    """`csp_source` of the unpacked bundle."""
    return csp_source(gzip.decompress(compressed()))


def refresh() -> dict[str, Any]:
    """Fetch the bundle with npm, store it with its licence and record. Returns the record."""
    from plotly.offline import get_plotlyjs_version

    version = get_plotlyjs_version()
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["npm", "pack", f"{PACKAGE}@{version}"], cwd=scratch, check=True, capture_output=True)
        with tarfile.open(next(Path(scratch).glob("*.tgz"))) as archive:
            script, licence, readme = (_member(archive, f"package/{name}") for name in FILES)
    packed = gzip.compress(script, compresslevel=9, mtime=0)
    entry = {
        "package": PACKAGE,
        "version": version,
        "licence": "MIT, see LICENSE.plotly",
        "trace_types": _trace_types(readme.decode("utf-8")),
        "sha256": hashlib.sha256(script).hexdigest(),
        "sha256_gz": hashlib.sha256(packed).hexdigest(),
    }
    write_atomically(STATIC / "plotly-cartesian.min.js.gz", packed)
    write_atomically(STATIC / "LICENSE.plotly", licence)
    write_atomically(STATIC / "bundle.json", (json.dumps(entry, indent=2) + "\n").encode())
    return entry


def _trace_types(readme: str) -> list[str]:
    """The names in the readme's line `Contains trace modules ...`."""
    line = next(line for line in readme.splitlines() if line.startswith("Contains trace modules"))
    return re.findall(r"`(\w+)`", line)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(name)
    if found is None:
        raise BundleError(f"{name} is not a file in {PACKAGE}")
    return found.read()


if __name__ == "__main__":
    print(json.dumps(refresh(), indent=2))  # noqa: T201
