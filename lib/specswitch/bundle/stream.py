"""One compressed tar stream, cut into chunks: the same bytes for the same content."""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

# The fa3 kernels hold the same code again at great distances: level 3 with this dictionary made 45 MB of them,
# level 6 with its own of 8 MiB 72. Packing takes 8 times as much memory (12 times above level 3), unpacking once.
_LARGEST_DICTIONARY = 512 << 20
_SMALLEST_DICTIONARY = 1 << 20
_TIME = 315532800


@dataclass(frozen=True)
class Stream:
    """chunks: file names in order. sha256 and size: of the whole stream. unpacked: bytes of content."""

    chunks: tuple[str, ...]
    sha256: str
    size: int
    unpacked: int


def write_stream(files: Mapping[str, Path], folder: Path, chunk_bytes: int, level: int) -> Stream:
    """Write `files` (name in the stream -> file) into `folder` as chunk-000, chunk-001, ...

    chunk_bytes: at most this many per chunk. level: of xz, 0 (fast) to 9.
    """
    size = sum(path.stat().st_size for path in files.values())
    dictionary = min(max(_SMALLEST_DICTIONARY, 1 << size.bit_length()), _LARGEST_DICTIONARY)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": dictionary}]
    with (
        _Chunks(folder, chunk_bytes) as chunks,
        lzma.LZMAFile(cast(BinaryIO, chunks), "wb", filters=filters) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            _add(tar, name, files[name])
    return Stream(tuple(chunks.names), chunks.digest.hexdigest(), chunks.size, size)


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    """Add one file without its owner and time."""
    with path.open("rb") as content:
        info = tarfile.TarInfo(name)
        status = os.fstat(content.fileno())
        info.size, info.mtime = status.st_size, _TIME
        info.mode = 0o755 if status.st_mode & 0o111 else 0o644
        tar.addfile(info, content)


class _Chunks(io.RawIOBase):
    """A writable file that goes on in the next chunk when one is full."""

    def __init__(self, folder: Path, chunk_bytes: int) -> None:
        self._folder = folder
        self._chunk_bytes = chunk_bytes
        self._chunk: io.BufferedWriter | None = None
        self._room = 0
        self.names: list[str] = []
        self.digest = hashlib.sha256()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        left = memoryview(data).cast("B")  # type: ignore[arg-type]
        written = len(left)
        self.digest.update(left)
        self.size += written
        while left:
            if not self._room:
                self._next()
            assert self._chunk is not None
            part, left = left[: self._room], left[self._room :]
            self._chunk.write(part)
            self._room -= len(part)
        return written

    def close(self) -> None:
        if self._chunk is not None:
            self._chunk.close()
        super().close()

    def _next(self) -> None:
        if self._chunk is not None:
            self._chunk.close()
        self.names.append(f"chunk-{len(self.names):03}")
        self._chunk = (self._folder / self.names[-1]).open("wb")
        self._room = self._chunk_bytes
