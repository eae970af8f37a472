"""The engine's own acceptance numbers: an interval without any verify is no number, and plain steps are in none."""

from __future__ import annotations

import logging
import math
import random
import re
from typing import Any

import pytest

from engine.dynamic import loads, runs
from engine.dynamic.runs import Pair
from engine.harness import Engine

pytestmark = pytest.mark.engine

INTERVAL = 10


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.accept_lens: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"accept len: (\S+),", record.getMessage())
        if found:
            self.accept_lens.append(float(found[1]))


def logged(path: str, pair: Pair, opts: dict[str, Any], thresholds: list[int | None]) -> dict[str, Any]:
    """Three requests decode 60 iterations under each threshold in turn; what was logged, and the totals."""
    from specswitch.engine import control, liveness

    engine = Engine(path, *pair, decode_log_interval=INTERVAL, log_level="info", **opts)
    lines = Lines()
    logging.getLogger().addHandler(lines)
    for i in range(3):
        engine.submit(loads.prompt(random.Random(i), 20), {"max_new_tokens": 500, "ignore_eos": True})
    reports = []
    for threshold in thresholds:
        control.change_rule(engine.worker, {"threshold": threshold})
        engine.step(6 * INTERVAL)
        reports.append(liveness.report(engine.scheduler))
    scheduler = engine.scheduler
    verifies, accepted = scheduler.spec_total_num_forward_ct, scheduler.spec_total_num_accept_tokens
    for rid in engine.running():
        engine.abort(rid)
    engine.run()
    alive = engine.generate([[1, 2, 3]], {"max_new_tokens": 5, "ignore_eos": True})[-1]
    return {
        "accept_lens": lines.accept_lens,
        "reports": reports,
        "engine_average": accepted / verifies if verifies else None,
        "alive": alive.output_ids,
    }


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_no_verify_at_all(pair: Pair, path: str) -> None:
    got = runs.in_child(logged, path, pair, runs.options(0), [0])
    assert len(got["accept_lens"]) >= 5
    assert all(math.isnan(value) for value in got["accept_lens"])
    assert got["reports"][0]["accept_length"] is None
    assert got["reports"][0]["plain_steps"] >= 5 * INTERVAL
    assert got["engine_average"] is None
    assert len(got["alive"]) == 5


@pytest.mark.parametrize("path", ["v1", "v2"])
def test_windows_with_and_without_verifies(pair: Pair, path: str) -> None:
    got = runs.in_child(logged, path, pair, runs.options(0), [None, 0, None])
    before, off, after = got["reports"]
    assert off["speculative_steps"] - before["speculative_steps"] <= 1
    assert off["accept_length"] == pytest.approx(before["accept_length"], rel=0.05), (
        "plain steps are not in it"
    )
    assert after["speculative_steps"] - off["speculative_steps"] >= 5 * INTERVAL
    nan = [math.isnan(value) for value in got["accept_lens"]]
    assert nan[:5] == [False] * 5
    assert 4 <= sum(nan) <= 6
    assert all(1 <= value <= 4 for value in got["accept_lens"] if not math.isnan(value))
    assert got["engine_average"] == pytest.approx(after["accept_length"], rel=0.05)
