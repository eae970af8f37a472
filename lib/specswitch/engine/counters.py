"""What each decode step did: totals since start, and on request a file with one record a step."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

from specswitch.engine.policy import Mode
from specswitch.engine.step_file import StepFile

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
        self.running_batch = 0
        self._last_t: float | None = None
        self._file = StepFile(os.path.join(steps_dir, f"steps-rank{rank}.bin")) if steps_dir else None

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
        if self._file is not None:
            speculative, switched = int(info.mode is Mode.SPECULATIVE), int(info.switched)
            self._file.write(
                now, batch, speculative, proposed, accepted, emitted, info.synced, switched, 0, step_ms
            )
        return now

    def idle(self) -> None:
        """No batch runs: the next step's duration would be waiting time, and the file may be written out."""
        self._last_t = None
        self.running_batch = 0
        if self._file is not None:
            self._file.flush()

    def accept_length(self) -> float | None:
        """Tokens per request per verify step, bonus included; None if no verify happened."""
        t = self.totals
        return None if t.verified_requests == 0 else (t.accepted + t.verified_requests) / t.verified_requests
