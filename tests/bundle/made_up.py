"""Small wheels made in the test, a node made of this very interpreter, and a bundle of both."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path

from specswitch.bundle.request import Request

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
MACHINE = platform.machine()
PLATFORM = f"manylinux_2_28_{MACHINE}"

KERNEL_FILES = {
    "sgl_kernel/__init__.py": b"",
    "sgl_kernel/sm90/common_ops.abi3.so": b"hopper" * 1000,
    "sgl_kernel/sm100/common_ops.abi3.so": b"others" * 1000,
    "sgl_kernel/flash_ops.abi3.so": b"fa3" * 10_000,
    "sgl_kernel/flash_attn.py": b"FA3 = True\n",
    "sgl_kernel/spatial_ops.abi3.so": b"spatial",
}


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: dict[str, bytes] | None = None,
    tag: str = "py3-none-any",
    needs: tuple[str, ...] = (),
) -> Path:
    """A wheel with a right RECORD; without `files` it holds one module that says its version."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    content = dict(files or {f"{stem}/__init__.py": f"VERSION = {version!r}\n".encode()})
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}".encode()
    )
    content[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    )
    rows = [(path, f"sha256={digest(data)}", str(len(data))) for path, data in content.items()]
    record = io.StringIO(newline="")
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
    content[f"{info}/RECORD"] = record.getvalue().encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, data in content.items():
            archive.writestr(inside, data)
    return path


def digest(data: bytes) -> str:
    """SHA-256 as a RECORD writes it."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def wrong_in_record(wheel: Path) -> list[str]:
    """Files whose row in RECORD is missing, too many or wrong."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (record,) = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = {r[0]: r[1:] for r in csv.reader(io.StringIO(archive.read(record).decode())) if r}
        wrong = sorted(names ^ set(rows))
        for name in (names & set(rows)) - {record}:
            data = archive.read(name)
            if rows[name] != [f"sha256={digest(data)}", str(len(data))]:
                wrong.append(name)
        return wrong


def make_folder(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of wheels and a lock of them: two plain ones, the kernels, torch."""
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "first", "1.0")
    make_wheel(wheels, "second-one", "2.0", tag=f"cp{PYTHON.replace('.', '')}-abi3-{PLATFORM}")
    make_wheel(wheels, "sglang-kernel", "0.4.2.post2", KERNEL_FILES)
    make_wheel(wheels, "torch", "2.11.0")
    lock = tmp_path / "node.lock"
    pins = ("first==1.0", "second-one==2.0", "sglang-kernel==0.4.2.post2", "torch==2.11.0")
    lock.write_text("\n".join((*pins, "elsewhere==1.0 ; sys_platform == 'win32'", "")), encoding="utf-8")
    return wheels, lock


def request(tmp_path: Path, **changes: object) -> Request:
    """A request for this interpreter and machine as the node."""
    wheels, lock = make_folder(tmp_path)
    asked = {
        "out": tmp_path / "bundle",
        "python": PYTHON,
        "platform": PLATFORM,
        "lock": str(lock),
        "wheels": wheels,
        "level": 0,
    }
    return Request(**{**asked, **changes})  # type: ignore[arg-type]


def run_install(bundle: Path, target: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """`sh install.sh TARGET` as on the node: nothing but a path and the interpreter in the environment."""
    return subprocess.run(
        ["sh", str(bundle / "install.sh"), str(target)],
        env={"PATH": os.environ["PATH"], "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def run_python(site: Path, code: str) -> str:
    """What `code` prints in a fresh interpreter that finds `site` first, and no checkout."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()
