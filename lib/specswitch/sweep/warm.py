"""Waves of a known batch size in a forced mode: to warm a server up, and to time its steps.

The first use of a batch size compiles and captures; measured, it would count against whoever came first.
"""

from __future__ import annotations

from collections.abc import Iterable

from specswitch.config import Point
from specswitch.load.idle import wait_until_idle
from specswitch.load.wave import run_wave
from specswitch.sweep.measure import IDLE_WAIT_S, LiveServer, PointFailedError
from specswitch.sweep.prompting import prompts_of

MODES = {"plain": 0, "speculative": None}  # the threshold that forces the mode
WARM_UP_TOKENS = 12


def warm_up(server: LiveServer, points: Iterable[Point]) -> None:
    """Run every batch size of `points` once, in both modes where the server can switch. Raises as `forced_wave`."""
    by_size = {point.concurrency: point for point in points}
    for size in sorted(by_size):
        point = by_size[size]
        if point.server.rule.threshold is None:
            send_wave(server, point, WARM_UP_TOKENS)
            continue
        for threshold in MODES.values():
            forced_wave(server, point, threshold, WARM_UP_TOKENS)


def forced_wave(server: LiveServer, point: Point, threshold: int | None, tokens: int) -> None:
    """Make the server speculate up to `threshold` (None: always), and send a wave. Raises as `send_wave`."""
    server.flush()
    server.set_rule(threshold=threshold)
    send_wave(server, point, tokens)


def send_wave(server: LiveServer, point: Point, tokens: int) -> None:
    """Send as many requests as the point's concurrency at once, `tokens` tokens each, and wait for their end.

    Raises:
        PointFailedError: a request failed.
        What the server raises.
    """
    prompts = prompts_of(point)
    asked = [prompts[i] for i in range(point.concurrency)]
    w = point.workload
    records = run_wave(
        server.url,
        asked,
        tokens,
        timeout_s=w.request_timeout_s,
        temperature=w.temperature,
        api_key=server.api_key,
    )
    server.raise_if_exited()
    failed = [r.error for r in records if r.outcome != "ok"]
    if failed:
        raise PointFailedError(f"{len(failed)} of {len(records)} requests failed, the first: {failed[0]}")
    wait_until_idle(server.url, IDLE_WAIT_S, api_key=server.api_key)
