"""The file of decode steps: an 8-byte magic followed by fixed-width records, one a step.

So a cut tail loses one record at most and a reader needs no parser. When it cannot be written (the disk is full), the
server goes on without it; whoever reads it has to compare the number of records with the server's totals.
"""

from __future__ import annotations

import contextlib
import logging
import struct
from typing import IO

logger = logging.getLogger(__name__)

MAGIC = b"SPSWST01"
# t_s f8, batch i4, mode i4 (0 plain, 1 speculative), proposed i4, accepted i4, emitted i4, synced i4,
# switched i4, padding i4, step_ms f8 (NaN = none)
RECORD = struct.Struct("<d8id")
FLUSH_S = 0.25


class StepFile:
    """Appends records to the file at `path`; never raises for what the file system answers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._unflushed_since: float | None = None
        try:
            self._file = open(path, "ab")  # noqa: SIM115
            if self._file.tell() == 0:
                self._file.write(MAGIC)
                self._file.flush()
        except OSError as e:
            self._give_up(e)

    def write(self, now: float, *rest: float) -> None:
        """Append one record, whose fields are those of `RECORD`; the first is the time, monotonic seconds."""
        if self._file is None:
            return
        try:
            self._file.write(RECORD.pack(now, *rest))
        except OSError as e:
            self._give_up(e)
        if self._unflushed_since is None:
            self._unflushed_since = now
        elif now - self._unflushed_since > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Hand buffered records to the operating system."""
        if self._file is None or self._unflushed_since is None:
            return
        try:
            self._file.flush()
        except OSError as e:
            self._give_up(e)
        self._unflushed_since = None

    def _give_up(self, error: OSError) -> None:
        logger.warning(
            "The step file %s cannot be written (%s): no more steps go into it, the server serves on. Make room or "
            "choose another folder, and restart the server to have it again.",
            self.path,
            error,
        )
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # closing tries once more to write what is left
                file.close()
