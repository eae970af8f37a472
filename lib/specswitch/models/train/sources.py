"""Where the training text comes from, and what is left out of it.

Python's documentation sources, standard library and test suite (Debian packages, Python licence) and Django's
documentation and code (BSD). Files that carry a licence of their own are left out, by the list in Debian's
copyright file and by their own words.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

PROSE, CODE = "prose", "code"
DEBIAN = ("python3.11-doc", "libpython3.11-minimal", "libpython3.11-stdlib", "libpython3.11-testsuite")
DJANGO = "Django==4.2.30"

# Named in Debian's copyright file or in Python's "Licenses and Acknowledgements for Incorporated Software";
# tables, generated files and copies of the documentation that would leak held-out text.
LEFT_OUT = (
    "logging/*", "multiprocessing/*", "sqlite3/*", "async*.py", "tarfile.py", "turtle.py", "turtledemo/*",
    "trace.py", "uu.py", "http/cookies.py", "xmlrpc/*", "xml/etree/*", "re/*", "tomllib/*", "optparse.py",
    "encodings/*", "pydoc_data/*", "_sysconfigdata*", "lib2to3/tests/data/*", "test/cjkencodings*",
    "test/encoded_modules/*", "test/test_epoll.py", "test/test_email/test__header_value_parser.py",
    "license.rst*", "copyright.rst*", "contents.rst*", "*/locale/*", "*/gis/*", "django/dispatch/*",
)  # fmt: skip
OWN_LICENCE = re.compile(
    r"permission to use, copy|permission\s+is\s+hereby\s+granted|redistribution and use|spdx-license-identifier"
    r"|licensed to psf under|licensed under the apache|gnu (lesser )?general public|\bmit license",
    re.IGNORECASE,
)
SMALLEST, LARGEST = 400, 400_000
HELD_OUT_PERCENT = 6


@dataclass(frozen=True, slots=True)
class Document:
    """One file. `name`: source and path inside it. `held_out`: never trained on, in whole."""

    name: str
    kind: str
    text: str
    held_out: bool


def fetch(directory: Path) -> None:
    """Download and unpack the text into `directory` (Debian's packages by apt-get, Django's sources by pip).

    Raises RuntimeError with the failed command's last words.
    """
    downloads = directory / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    _run(["apt-get", "download", "-q", *DEBIAN], downloads)
    for package in downloads.glob("*.deb"):
        _run(["dpkg-deb", "-x", str(package), str(directory / package.name.split("_")[0])], downloads)
    _run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", DJANGO],
        downloads,
    )
    for archive in downloads.glob("*.tar.gz"):
        with tarfile.open(archive) as tar:
            tar.extractall(directory / "django", filter="data")


def documents(directory: Path) -> Iterator[Document]:
    """All usable files under a directory that `fetch` filled, in a fixed order."""
    python, django = "*/usr/lib/python3.11", "django/*"
    for source, roots, pattern, kind in (
        ("python-doc", "python3.11-doc/usr/share/doc/python3.11/html/_sources", "*.rst.txt", PROSE),
        ("python-lib", f"libpython3.11-[ms]{python}", "*.py", CODE),
        ("python-test", f"libpython3.11-t{python}", "*.py", CODE),
        ("django-doc", f"{django}/docs", "*.txt", PROSE),
        ("django-code", f"{django}/django", "*.py", CODE),
    ):
        for root in sorted(directory.glob(roots)):
            yield from _read(source, root, pattern, kind)


def own_library(limit: int = 200) -> Iterator[Document]:
    """This interpreter's standard library: enough for a run in miniature without any download."""
    root = Path(sysconfig.get_path("stdlib"))
    for count, document in enumerate(_read("python-lib", root, "*.py", CODE)):
        if count == limit:
            return
        yield document


def _read(source: str, root: Path, pattern: str, kind: str) -> Iterator[Document]:
    for path in sorted(root.rglob(pattern)):
        inside = path.relative_to(root).as_posix()
        if path.is_symlink() or "site-packages" in inside or any(fnmatch(inside, left) for left in LEFT_OUT):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if not SMALLEST <= len(text) <= LARGEST or OWN_LICENCE.search(text):
            continue
        name = f"{source}/{inside}"
        yield Document(name, kind, text, source in {"python-doc", "python-lib"} and _held_out(name))


def _held_out(name: str) -> bool:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % 100 < HELD_OUT_PERCENT


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()[-400:]}")
