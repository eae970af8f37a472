"""Measure step times behind one server: every batch size in both modes, several times, each warmed first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from specswitch.config import Point
from specswitch.metrics.break_even import SETTLING_STEPS, Wave, wave
from specswitch.serving.errors import PreflightError
from specswitch.sweep.grid import points, rotated
from specswitch.sweep.measure import LiveServer, PointFailedError, complete_steps
from specswitch.sweep.parameters import SweepParameters
from specswitch.sweep.precheck import precheck
from specswitch.sweep.used import SERVER, refuse_unused
from specswitch.sweep.warm import MODES, forced_wave, warm_up

SpeculatingPath = Literal["v1", "v2"]
# The parameters of a sweep that a calibration uses. Its answers are always as long as `output_tokens` says.
USED = SERVER | {
    "concurrencies",
    "repeats",
    "dataset",
    "prompt_tokens",
    "output_tokens",
    "temperature",
    "request_timeout_s",
}
CURES = {
    "arms": "a calibration has none; --path says which worker",
    "out_dir": "--out says where the results go",
    "resume": "a calibration begins anew each time",
    "executor": "a calibration runs on this machine",
    "ignore_eos": "steps of a known batch size need answers of a known length",
}


class Plan(NamedTuple):
    """What a calibration does: batch sizes by repeat (as sweep points), and the parameters they came from."""

    points: list[Point]
    parameters: SweepParameters


def plan(parameters: SweepParameters, path: SpeculatingPath, out_dir: Path) -> Plan:
    """Check a calibration of `path`: concurrencies are the batch sizes, the arms are ours to choose.

    Raises as `sweep.precheck.precheck`, and PreflightError for parameters that are not `USED`, or when an
    answer is too short to time a step.
    """
    refuse_unused(parameters, USED, "a calibration", CURES)
    ours = SweepParameters.of({**parameters.changed(), "arms": [f"off-{path}"]})
    fewest = ours.output_tokens / (ours.num_draft_tokens or ours.num_steps + 1)
    if fewest < 3 * SETTLING_STEPS:
        raise PreflightError(
            f"output_tokens={ours.output_tokens} may end after {fewest:.0f} speculative steps: give at least "
            f"{3 * SETTLING_STEPS * (ours.num_draft_tokens or ours.num_steps + 1)}"
        )
    precheck(ours.plan(), out_dir, hold="one")
    return Plan(points(ours.plan(), "one"), ours)


def measure(
    plan: Plan, server: LiveServer, steps_dir: Path, tell: Callable[[Wave], Any] = lambda _: None
) -> list[Wave]:
    """Run every wave of the plan on `server`, which holds the path's dynamic worker. Modes take turns.

    Raises:
        PointFailedError: a request failed, or no step ran the whole batch.
        What the server raises.
    """
    warm_up(server, plan.points)
    waves = []
    for at, point in enumerate(plan.points):
        for mode in rotated(list(MODES), at + point.repeat):
            started_s = time.monotonic()
            forced_wave(server, point, MODES[mode], point.workload.output_tokens)
            steps = complete_steps(steps_dir, server.state(), started_s, time.monotonic())
            found = wave(point.concurrency, point.repeat, mode, steps)
            if found is None:
                raise PointFailedError(
                    f"batch {point.concurrency}, {mode}: no step ran all requests together; give longer answers "
                    "(output_tokens) or smaller batches"
                )
            waves.append(found)
            tell(found)
    return waves


@contextmanager
def launched(plan: Plan, log: Path) -> Iterator[tuple[Any, Path]]:
    """The server of the plan and the folder of its step log, which goes with it. Raises as `launch`."""
    from specswitch.serving.launch import launch

    config = plan.points[0].server
    with (
        tempfile.TemporaryDirectory(prefix="specswitch-calibrate-") as scratch,
        launch(config, log, steps_dir=Path(scratch)) as server,
    ):
        if not config.synthetic:
            server.set_rule(threshold=None)
            server.smoke_accept_length()
        yield server, Path(scratch)
