"""The words of a soak on memory: numbers where there are some, else why there are none."""

from __future__ import annotations

from specswitch.soak.load import Tally
from specswitch.soak.memory import Sample, growth
from specswitch.soak.outcome import describe
from specswitch.soak.run import PathRun


def line_on_memory(samples: list[Sample]) -> str:
    run = PathRun(path="v2", tally=Tally(), memory=growth(samples), samples=samples)
    (line,) = [text for text in describe(run).splitlines() if text.startswith("  memory ")]
    return line


def test_a_run_too_short_to_measure_memory_says_so_in_words() -> None:
    line = line_on_memory([Sample(10 * i, {"server": 100.0}) for i in range(8)])
    assert "undecided: the run was too short to measure its growth (8 samples" in line
    assert "60 that come after 2000 requests" in line
    assert "- ->" not in line


def test_a_measured_growth_has_its_interval_and_its_processes() -> None:
    line = line_on_memory([Sample(100 * i, {"server": 100.0 + 0.01 * i}) for i in range(200)])
    assert "memory flat: 0.10 [0.10, 0.10] MiB per 1000 requests, limit 2;" in line
    assert "server 0.10" in line
