"""Writing a wheel again: without some of its files, uncompressed, and always the same for the same content.

Uncompressed, because the bundle's one stream compresses all wheels together far better than each does itself.
Files are only ever taken out, so the RECORD stays right once their rows are gone.
"""

from __future__ import annotations

import csv
import hashlib
import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from specswitch.bundle.errors import BundleError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that a zip file can hold
_RECORD = ".dist-info/RECORD"
_PART_BYTES = 1 << 20


def repack(
    source: Path, dest: Path, files_to_cut: Callable[[Iterable[str]], frozenset[str]] | None = None
) -> dict[str, int]:
    """Write the wheel `source` to `dest`; `files_to_cut` says which of its files stay out.

    Returns:
        What was cut: file -> bytes, sorted.

    Raises:
        BundleError: `source` is no wheel, or damaged. OSError: `dest` cannot be written.
    """
    with _reading(source):
        old = zipfile.ZipFile(source)
    with old, zipfile.ZipFile(dest, "w", zipfile.ZIP_STORED) as new:
        files = {info.filename: info for info in old.infolist() if not info.is_dir()}
        records = [name for name in files if name.endswith(_RECORD) and name.count("/") == 1]
        if len(records) != 1:
            raise BundleError(
                f"{source.name} is no wheel: it has {len(records)} RECORD files: download it again"
            )
        cut = files_to_cut(files) if files_to_cut else frozenset()
        for name in sorted(files, key=lambda n: (".dist-info/" in n, n == records[0], n)):
            if name in cut:
                continue
            info = _normal(files[name])
            if name == records[0]:
                with _reading(source):
                    record = old.read(name)
                new.writestr(info, _without(record, cut))
                continue
            with new.open(info, "w") as copy:
                for part in _parts(old, name, source):
                    copy.write(part)
        return {name: files[name].file_size for name in sorted(cut)}


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Turn what goes wrong in the body, which only reads `source`, into a BundleError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as problem:
        raise BundleError(
            f"{source.name} cannot be read as a wheel ({problem}): download it again"
        ) from problem


def _parts(wheel: zipfile.ZipFile, name: str, source: Path) -> Iterator[bytes]:
    """The content of one file in a wheel, a part at a time. Raises BundleError."""
    with _reading(source):
        content = wheel.open(name)
    with content:
        while True:
            with _reading(source):
                part = content.read(_PART_BYTES)
            if not part:
                return
            yield part


def _normal(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The same entry without its time; of the mode only whether it can be run."""
    normal = zipfile.ZipInfo(info.filename, _EPOCH)
    executable = (info.external_attr >> 16) & 0o111
    normal.external_attr = (0o100755 if executable else 0o100644) << 16
    normal.file_size = info.file_size
    return normal


def _without(record: bytes, cut: frozenset[str]) -> bytes:
    """A RECORD without the rows of the files in `cut`."""
    rows = [
        row
        for row in csv.reader(io.StringIO(record.decode("utf-8"), newline=""))
        if row and row[0] not in cut
    ]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")
