"""Installs a bundle on the node. Shipped in every bundle as `install.py`: standard library only, no network.

Checks every file against SHA256SUMS, unpacks the chunks as one stream into a hidden sibling of the target, has pip
install the wheels there, and renames: the target is whole or not there. Run again after any failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SUMS = "SHA256SUMS"
MANIFEST = "manifest.json"
# Unpacked wheels and what is installed from them lie side by side for a while; bytecode comes on top.
SPACE_FACTOR = 2.5


class InstallError(Exception):
    """The bundle cannot be installed. The message says what to do."""


def pip_command() -> tuple[list[str], dict[str, str]]:
    """This interpreter's pip, or the one that comes inside the standard library: command and environment.

    Raises:
        InstallError: there is neither.
    """
    environment = dict(os.environ)
    if importlib.util.find_spec("pip") is None:
        spec = importlib.util.find_spec("ensurepip")
        places = spec.submodule_search_locations if spec else None
        bundled = sorted(wheel for place in places or () for wheel in Path(place).glob("_bundled/pip-*.whl"))
        if not bundled:
            raise InstallError(
                f"{sys.executable} has no pip: install the system's python3-pip, or name another Python"
            )
        path = (str(bundled[-1]), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    return [sys.executable, "-m", "pip"], environment


def check_files(folder: Path) -> list[Path]:
    """The chunks in order, once every file of the bundle is there and undamaged. Raises InstallError."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise InstallError(f"{folder} has no {SUMS}: copy the whole folder of the bundle again") from problem
    wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}
    missing = [name for name in wanted if not (folder / name).is_file()]
    damaged = [name for name in wanted if name not in missing and _sha256(folder / name) != wanted[name]]
    faults = [
        f"{what}: {', '.join(names)}" for what, names in (("missing", missing), ("damaged", damaged)) if names
    ]
    if faults:
        raise InstallError(f"{'; '.join(faults)} (of {len(wanted)} files in {folder}): copy these again")
    return [folder / name for name in wanted if name.startswith("chunk-")]


def check_node(manifest: dict, target: Path) -> None:
    """Refuse another Python, processor or an older glibc, and a disk that is too small. Raises InstallError."""
    python = ".".join(str(part) for part in sys.version_info[:2])
    if python != manifest["python"]:
        raise InstallError(
            f"{sys.executable} is Python {python}, this bundle is for {manifest['python']}: name that interpreter with "
            f"PYTHON=/path/to/python{manifest['python']}, or make a bundle with --python {python}"
        )
    glibc, wanted = platform.libc_ver()[1], manifest["platform"].removeprefix("manylinux_").split("_", 2)
    if platform.machine() != wanted[2]:
        raise InstallError(f"this machine is {platform.machine()}, the bundle is for {wanted[2]}")
    if glibc and [int(part) for part in glibc.split(".")[:2]] < [int(part) for part in wanted[:2]]:
        raise InstallError(
            f"this machine has glibc {glibc}, the bundle may need {wanted[0]}.{wanted[1]}: make one with "
            f"--platform manylinux_{glibc.replace('.', '_')}_{wanted[2]}"
        )
    parent = next(p for p in target.parents if p.exists())
    free, needed = shutil.disk_usage(parent).free, int(manifest["stream"]["unpacked_bytes"] * SPACE_FACTOR)
    if free < needed:
        raise InstallError(
            f"{parent} has {free >> 20} MiB free, installing takes up to {needed >> 20}: free some, or choose "
            "another target"
        )


def lacking_here(manifest: dict) -> list[str]:
    """The packages that the node was to have and has not, sorted; versions are not compared."""
    lacking = []
    for name in sorted({re.split(r"[<>=!~]", requirement)[0] for requirement in manifest["node_must_have"]}):
        try:
            version(name)
        except PackageNotFoundError:
            lacking.append(name)
    return lacking


def installed(target: Path, manifest: dict) -> bool:
    """Whether `target` holds this very bundle already. Raises InstallError if it holds anything else."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return False
    try:
        there = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        there = None
    if there != manifest:
        raise InstallError(f"{target} exists and is not this bundle: remove it, or choose another target")
    return True


class Joined(io.RawIOBase):
    """The chunks, read as one file."""

    def __init__(self, chunks: list[Path]) -> None:
        self._left = list(chunks)
        self._open: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while self._open or self._left:
            if self._open is None:
                self._open = self._left.pop(0).open("rb")
            count = self._open.readinto(buffer)  # type: ignore[arg-type]
            if count:
                return count
            self._open.close()
            self._open = None
        return 0


def unpack(chunks: list[Path], folder: Path) -> None:
    """Unpack the stream into `folder`. Raises InstallError."""
    try:
        with tarfile.open(fileobj=io.BufferedReader(Joined(chunks), 1 << 20), mode="r|xz") as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter="data")
            else:  # Python 3.11.0 to 3.11.3
                tar.extractall(folder)
    except tarfile.CompressionError as problem:
        raise InstallError(
            f"{sys.executable} cannot read xz ({problem}): name another Python with PYTHON="
        ) from problem
    except (tarfile.TarError, EOFError, OSError) as problem:
        raise InstallError(f"unpacking failed: {problem}") from problem


def install_wheels(folder: Path) -> None:
    """Install the unpacked wheels into `site` beside them, and remove them. Raises InstallError."""
    wheels = sorted(str(path.relative_to(folder)) for path in (folder / "wheels").glob("*.whl"))
    pip, environment = pip_command()
    command = [*pip, "--isolated", "install", "--quiet", "--no-index", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-warn-script-location", "--target", "site", *wheels]
    environment["PIP_CONFIG_FILE"] = os.devnull  # the machine's own settings may name an index or constraints
    done = subprocess.run(command, cwd=folder, env=environment, check=False)
    if done.returncode:
        raise InstallError(f"pip ended with exit code {done.returncode}: its reason stands above")
    shutil.rmtree(folder / "wheels")


def install(folder: Path, target: Path) -> None:
    """Install the bundle in `folder` as `target`. Raises InstallError; then there is no target."""
    _say(f"checking {folder}")
    chunks = check_files(folder)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if installed(target, manifest):
        _say(f"{target} holds this bundle already")
        return
    check_node(manifest, target)
    partial = target.with_name(f".{target.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    claim = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise InstallError(f"another installation into {target} is running: wait for it") from problem
        try:
            _empty(partial)
            _say(f"unpacking {len(chunks)} chunks")
            unpack(chunks, partial)
            _say(f"installing {len(manifest['wheels'])} wheels")
            install_wheels(partial)
            shutil.copyfile(folder / MANIFEST, partial / MANIFEST)
            os.replace(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    finally:
        os.close(claim)


def main(arguments: list[str]) -> int:
    """`install.py TARGET`; returns the exit code: 0 installed, 1 not installed, 2 wrong usage."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write("usage: sh install.sh TARGET   (a folder that does not exist yet)\n")
        return 2
    target = Path(os.path.abspath(arguments[0]))
    try:
        install(Path(os.path.abspath(__file__)).parent, target)
    except InstallError as problem:
        sys.stderr.write(f"error: {problem}\n")
        return 1
    except OSError as problem:
        sys.stderr.write(f"error: {target} could not be installed: {problem}\n")
        return 1
    if lacking := lacking_here(json.loads((target / MANIFEST).read_text(encoding="utf-8"))):
        _say(f"note: packages of this bundle need what this Python has not: {', '.join(lacking)}")
    site = target / "site"
    _say(f"installed. Use it with\n\nexport PYTHONPATH={_quoted(site)} PATH={_quoted(site / 'bin')}:$PATH")
    _say("\nand try\n\nspecswitch doctor -- --model-path MODEL --speculative-algorithm EAGLE3 ...")
    models = sorted((target / "models").glob("*"))
    if models:
        _say("\nModels: " + " ".join(_quoted(path) for path in models))
    return 0


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
