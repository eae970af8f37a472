"""What each decode step did: one record a step, totals since start, a ring of the newest, a file on request.

The file (`<SPECSWITCH_STEPS_DIR>/steps-rank<r>.bin`) is an 8-byte magic followed by fixed-width records, so a
cut tail loses one record at most and a reader needs no parser.
"""

from __future__ import annotations

import math
import os
import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import IO

from specswitch.engine.policy import Mode

MAGIC = b"SPSWST01"
# t_s f8, batch i4, mode i4 (0 plain, 1 speculative), proposed i4, accepted i4, emitted i4, synced i4,
# switched i4, padding i4, step_ms f8 (NaN = none)
RECORD = struct.Struct("<d8id")
RING = 4096
FLUSH_S = 0.25
IDLE_GAP_S = 1.0


@dataclass(slots=True)
class StepInfo:
    """What the worker knows of a step when it launches it; travels on the step's result."""

    mode: Mode
    switched: bool = False
    synced: int = 0


@dataclass(slots=True)
class Totals:
    """Sums since the server's start."""

    plain_steps: int = 0
    speculative_steps: int = 0
    plain_tokens: int = 0
    speculative_tokens: int = 0
    proposed: int = 0
    accepted: int = 0
    verified_requests: int = 0
    synced_tokens: int = 0


class Counters:
    """Step records and totals of one scheduler process."""

    def __init__(self, rank: int, steps_dir: str | None = None) -> None:
        self.totals = Totals()
        self.ring: deque[tuple] = deque(maxlen=RING)
        self.running_batch = 0
        self._last_t: float | None = None
        self._file: IO[bytes] | None = None
        self._unflushed_since: float | None = None
        if steps_dir:
            self._file = open(os.path.join(steps_dir, f"steps-rank{rank}.bin"), "ab")  # noqa: SIM115
            if self._file.tell() == 0:
                self._file.write(MAGIC)
                self._file.flush()

    def record(self, info: StepInfo, batch: int, proposed: int, accepted: int, dead: int = 0) -> float:
        """Account one finished decode step.

        Args:
            info: mode, switch and synced tokens of the step.
            batch: decode requests in it.
            proposed: draft tokens proposed over the live requests (0 in a plain step).
            accepted: draft tokens accepted by them, bonus not included.
            dead: requests of the batch that had ended before (the overlap scheduler notices one step late): they
                were computed, but their tokens are thrown away.

        Returns:
            The time of the record, monotonic seconds.
        """
        now = time.monotonic()
        t = self.totals
        emitted = batch - dead + accepted
        if info.mode is Mode.PLAIN:
            t.plain_steps += 1
            t.plain_tokens += emitted
        else:
            t.speculative_steps += 1
            t.speculative_tokens += emitted
            t.proposed += proposed
            t.accepted += accepted
            t.verified_requests += batch - dead
        t.synced_tokens += info.synced
        self.running_batch = batch
        gap = None if self._last_t is None else now - self._last_t
        step_ms = math.nan if gap is None or gap > IDLE_GAP_S else gap * 1e3
        self._last_t = now
        row = (
            now,
            batch,
            int(info.mode is Mode.SPECULATIVE),
            proposed,
            accepted,
            emitted,
            info.synced,
            int(info.switched),
            0,
            step_ms,
        )
        self.ring.append(row)
        if self._file is not None:
            self._file.write(RECORD.pack(*row))
            if self._unflushed_since is None:
                self._unflushed_since = now
            elif now - self._unflushed_since > FLUSH_S:
                self.flush()
        return now

    def idle(self) -> None:
        """No batch runs: the next step's duration would be waiting time, and the file may be written out."""
        self._last_t = None
        self.running_batch = 0
        self.flush()

    def flush(self) -> None:
        """Hand buffered records to the operating system."""
        if self._file is not None and self._unflushed_since is not None:
            self._file.flush()
            self._unflushed_since = None

    def accept_length(self) -> float | None:
        """Tokens per request per verify step, bonus included; None if no verify happened."""
        t = self.totals
        return None if t.verified_requests == 0 else (t.accepted + t.verified_requests) / t.verified_requests
