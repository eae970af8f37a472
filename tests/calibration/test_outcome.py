"""The words of a calibration: a batch size is called paying only where the interval says so."""

from __future__ import annotations

from specswitch.calibration.outcome import Calibration, describe
from specswitch.metrics.break_even import Wave
from specswitch.metrics.ratio import Ratio

# Batch size -> break-even accept length by repeat.
LENGTHS = {1: (1.2, 1.21, 1.19), 16: (2.0, 2.4, 2.7), 32: (3.5, 3.51, 3.49)}


def calibration(repeats: int = 3, lengths: dict[int, tuple[float, ...]] = LENGTHS) -> Calibration:
    """Plain steps of 10 ms, speculative ones of 10 ms x the break-even length, judged at 2.5."""
    waves = [
        Wave(batch, repeat, mode, 10.0 * (length if mode == "speculative" else 1.0), 50, Ratio(0, 0))
        for batch, by_repeat in lengths.items()
        for repeat, length in enumerate(by_repeat[:repeats])
        for mode in ("plain", "speculative")
    ]
    return Calibration("v2", waves, 2.5)


def test_batches_that_are_told_stand_apart_from_those_within_the_interval() -> None:
    text = describe(calibration())
    assert "accept length 2.50: speculate at batches 1 to 17" in text
    assert "told by the intervals: it pays at batch 1, does not at batch 32" in text
    assert "not told: at batch 16 the accept length lies within the break-even interval" in text


def test_where_every_batch_is_told_nothing_is_left_open() -> None:
    text = describe(calibration(lengths={b: LENGTHS[b] for b in (1,)}))
    assert "told by the intervals: it pays at batch 1\n" in text
    assert "not told" not in text


def test_one_repeat_tells_of_no_batch() -> None:
    text = describe(calibration(repeats=1))
    assert "one repeat: no batch is told to pay or not" in text
    assert "told by the intervals" not in text
