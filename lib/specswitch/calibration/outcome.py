"""What a calibration says: numbers for a file, lines for a person, and the batch table for a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specswitch.metrics.break_even import (
    Wave,
    break_even_batch,
    break_even_lengths,
    doubts,
    mean_step_ms,
    paying_ranges,
    pooled_accept_length,
)
from specswitch.metrics.intervals import Interval
from specswitch.results.files import write_json

SCHEMA_VERSION = 1
CALIBRATION, TABLE, UNFINISHED = "calibration.json", "batch-table.json", "unfinished.json"
OTHER_LENGTHS = (1.5, 2.0, 2.5, 3.0)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The waves of one machine, path and model, and the accept length to judge them by (None: the measured one)."""

    path: str
    waves: Sequence[Wave]
    asked_length: float | None = None

    @property
    def accept_length(self) -> float | None:
        """Accept length that the answer is for; None where nothing was asked and nothing verified."""
        return self.asked_length or pooled_accept_length(self.waves).value

    @property
    def lengths(self) -> dict[int, Interval]:
        """Break-even accept length by measured batch size."""
        return break_even_lengths(self.waves)

    def ranges(self, accept_length: float | None = None) -> list[tuple[int, int]]:
        """Batch ranges in which speculation pays, at another accept length if given."""
        length = accept_length or self.accept_length
        means = {batch: interval.mean for batch, interval in self.lengths.items()}
        return [] if length is None else paying_ranges(means, length)


def save(calibration: Calibration, folder: Path, about: dict[str, Any]) -> Path | None:
    """Write `calibration.json`, and `batch-table.json` where speculation pays somewhere; path of the latter.

    No table from step times that are in doubt. about: provenance, kept as it is. Raises ResultsError.
    """
    measured = pooled_accept_length(calibration.waves)
    ranges = calibration.ranges()
    lengths = {str(batch): asdict(i) for batch, i in calibration.lengths.items()}
    write_json(
        folder / CALIBRATION,
        {
            "schema_version": SCHEMA_VERSION,
            "path": calibration.path,
            "accept_length": calibration.accept_length,
            "measured_accept_length": {"value": measured.value, **measured.as_dict()},
            "break_even_accept_length": lengths,
            "speculate": ranges,
            "speculate_at": {str(a): calibration.ranges(a) for a in OTHER_LENGTHS},
            "doubts": doubts(calibration.waves),
            "waves": [asdict(w) for w in calibration.waves],
            "about": about,
        },
    )
    for earlier in (TABLE, UNFINISHED):  # of an earlier calibration into the same folder
        (folder / earlier).unlink(missing_ok=True)
    if not ranges or doubts(calibration.waves):
        return None
    write_json(folder / TABLE, {"speculate": [list(r) for r in ranges]})
    return folder / TABLE


def save_unfinished(path: str, waves: Sequence[Wave], folder: Path) -> Path:
    """Write the waves of a calibration that did not come to its end. Raises ResultsError."""
    write_json(
        folder / UNFINISHED,
        {"schema_version": SCHEMA_VERSION, "path": path, "waves": [asdict(w) for w in waves]},
    )
    return folder / UNFINISHED


def describe(calibration: Calibration) -> str:
    """The result as lines of text."""
    length = calibration.accept_length
    lines = ["batch  plain ms  speculative ms  break-even accept length  speed-up"]
    for batch, interval in calibration.lengths.items():
        plain = mean_step_ms(calibration.waves, batch, "plain")
        speculative = mean_step_ms(calibration.waves, batch, "speculative")
        gain = "-" if length is None else f"{length / interval.mean:.2f}"
        between = "" if interval.low is None else f" [{interval.low:.2f}, {interval.high:.2f}]"
        lines.append(
            f"{batch:5d}  {plain:8.2f}  {speculative:14.2f}  {f'{interval.mean:.2f}{between}':24s}  {gain:>8s}"
        )
    lines += ["", f"accept length {_number(length)}: speculate at {_ranges(calibration.ranges())}"]
    lines += _told(calibration)
    lines.append(f"threshold over repeats: {_threshold(calibration)}")
    lines += [f"at accept length {a}: {_ranges(calibration.ranges(a))}" for a in OTHER_LENGTHS]
    lines.append("Between measured batch sizes the break-even length is interpolated.")
    lines.append("Decode steps only: prefill, which both modes share, is not in these numbers.")
    return "\n".join(lines)


def _told(calibration: Calibration) -> list[str]:
    """Of the measured batch sizes: which the break-even intervals tell to pay or not, and which they leave open."""
    length = calibration.accept_length
    if length is None:
        return []
    if any(i.low is None for i in calibration.lengths.values()):
        return ["one repeat: no batch is told to pay or not, the rule follows the mean alone"]
    pays = [b for b, i in calibration.lengths.items() if i.high is not None and i.high < length]
    costs = [b for b, i in calibration.lengths.items() if i.low is not None and i.low > length]
    open_ = [b for b in calibration.lengths if b not in pays and b not in costs]
    told = [f"{words} at {_measured(at)}" for words, at in (("pays", pays), ("does not", costs)) if at]
    lines = [f"told by the intervals: it {', '.join(told)}"] if told else []
    if open_:
        lines.append(
            f"not told: at {_measured(open_)} the accept length lies within the break-even interval, and the rule "
            "follows the mean"
        )
    return lines


def _measured(batches: Sequence[int]) -> str:
    return f"batch {', '.join(map(str, batches))}"


def _threshold(calibration: Calibration) -> str:
    length = calibration.accept_length
    found = None if length is None else break_even_batch(calibration.waves, length)
    if found is None:
        return "no single one (in some repeat it does not pay at batch 1, or still pays at the largest)"
    between = "" if found.low is None else f" [{max(found.low, 0):.1f}, {found.high:.1f}]"
    return f"{found.mean:.1f}{between} (n={found.n})"


def _ranges(ranges: list[tuple[int, int]]) -> str:
    if not ranges:
        return "no measured batch size"
    return "batches " + ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in ranges)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
