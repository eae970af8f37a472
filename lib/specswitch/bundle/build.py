"""Making a bundle: collect wheels, models and the project, write them as chunks, and say what is in there."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from specswitch import __version__
from specswitch.bundle import kernels, project
from specswitch.bundle.installer import MANIFEST, SUMS
from specswitch.bundle.needs import unfit, unmet
from specswitch.bundle.repack import repack, sha256
from specswitch.bundle.request import MEGABYTE, Plan
from specswitch.bundle.stream import Stream, write_stream
from specswitch.bundle.wheels import download, pick
from specswitch.results.files import saying_why, write_atomically, write_json
from specswitch.results.provenance import git_state

FORMAT = 1
# What is shipped to run on the node: name in the bundle -> name in this package.
SCRIPTS = {"install.sh": "install.sh", "install.py": "installer.py"}


def make(plan: Plan, tell: Callable[[str], None]) -> dict[str, Any]:
    """Make the bundle in the folder that the plan names; it appears whole or not at all. Returns its manifest.

    tell: called with a line of progress now and then.

    Raises:
        BundleError: a wheel cannot be had, or is not what it should be. ResultsError: it cannot be written.
    """
    out = plan.request.out
    with saying_why(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
            work = Path(name)
            for folder in ("fetched", "wheels", "bundle"):
                (work / folder).mkdir()
            manifest = _collect(plan, work, tell)
            content = {f"wheels/{p.name}": p for p in (work / "wheels").glob("*.whl")}
            content |= project.loose_files(plan.root) | plan.model_files
            tell(f"compressing {sum(p.stat().st_size for p in content.values()) / MEGABYTE:.0f} MB")
            bundle = work / "bundle"
            stream = write_stream(content, bundle, plan.request.chunk_mb * MEGABYTE, plan.request.level)
            manifest |= {"stream": _stream(stream)}
            _write_rest(bundle, stream, manifest)
            os.replace(bundle, out)
    return manifest


def _collect(plan: Plan, work: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Put every wheel into `work/wheels`; returns the manifest but for the stream."""
    wanted = plan.selection.wanted
    folder = plan.request.wheels
    if folder is None:
        folder = work / "fetched"
        tell(f"fetching {len(wanted)} wheels for Python {plan.target.python} on {plan.target.platform}")
        download(wanted, plan.target, folder, tell)
    sources = list(pick(folder, wanted, plan.target).values())
    tell("building the project's wheel")
    sources.append(project.build_wheel(plan.root, work / "fetched"))
    tell(f"repacking {len(sources)} wheels")
    listed = [_repacked(source, work / "wheels", plan) for source in sources]
    needed = unmet(sources, plan.selection.held, plan.present, plan.target)
    if needed:
        names = sorted({re.split(r"[<>=!~]", requirement)[0] for requirement in needed})
        tell(f"the node must have (versions: node_must_have in manifest.json): {', '.join(names)}")
    wrong = unfit(sources, {pin.name: pin.version for pin in wanted}, plan.target)
    for requirement, users in wrong.items():
        tell(f"warning: {', '.join(users)} asks for {requirement}, the lock has another version")
    left_out = [
        {"name": pin.name, "version": str(pin.version), "why": why}
        for pin, why in sorted(plan.selection.left_out.items())
    ]
    return {
        "format": FORMAT,
        "specswitch": __version__,
        **git_state(),
        "python": plan.target.python,
        "platform": plan.target.platform,
        "lock": Path(plan.request.lock).name,
        "kernels": plan.request.kernels,
        "wheels": sorted(listed, key=lambda wheel: wheel["name"]),
        "left_out": left_out,
        "node_must_have": needed,
        "unfit_versions": wrong,
        "models": {name: path.stat().st_size for name, path in sorted(plan.model_files.items())},
    }


def _repacked(source: Path, folder: Path, plan: Plan) -> dict[str, Any]:
    """Repack one wheel into `folder`; its entry in the manifest."""
    name, version, _, _ = parse_wheel_filename(source.name)
    cut = plan.cut if name == kernels.DISTRIBUTION else None
    chosen = (lambda files: kernels.files_to_cut(files, cut)) if cut else None
    files_cut = repack(source, folder / source.name, chosen)
    entry = {
        "name": name,
        "version": str(version),
        "file": source.name,
        "sha256": sha256(folder / source.name),
    }
    return entry | ({"files_cut": files_cut} if files_cut else {})


def _stream(stream: Stream) -> dict[str, Any]:
    return {
        "format": "tar.xz",
        "chunks": len(stream.chunks),
        "sha256": stream.sha256,
        "bytes": stream.size,
        "unpacked_bytes": stream.unpacked,
    }


def _write_rest(bundle: Path, stream: Stream, manifest: dict[str, Any]) -> None:
    """Write manifest and scripts beside the chunks, and the checksums of all of them."""
    write_json(bundle / MANIFEST, manifest)
    for name, source in SCRIPTS.items():
        write_atomically(bundle / name, (package_files("specswitch.bundle") / source).read_bytes())
    (bundle / "install.sh").chmod(0o755)
    names = [*stream.chunks, *sorted(SCRIPTS), MANIFEST]
    sums = "".join(f"{sha256(bundle / name)}  {name}\n" for name in names)
    write_atomically(bundle / SUMS, sums.encode("utf-8"))
