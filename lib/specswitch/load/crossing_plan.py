"""A crossing run, typed: every arm under one load shape that crosses the threshold, several times.

Beside `config.SweepPlan`, not in it, because a shape belongs to the load. `AnyPlan` and `AnyPoint` are what
the runner and the store take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, model_validator

from specswitch.config import Arm, NonNegative, Plan, Point, Requests, ServerConfig, Strict, SweepPlan
from specswitch.load.shapes import Shape, SlotShape

WarmUp = Annotated[float, Field(ge=0)]


class CrossingPoint(Strict):
    """One measured cell: arm x shape x repeat, on one server configuration.

    `warmup_s`: seconds of load before the measured one, after which the prefix cache is emptied again.
    """

    arm: Arm
    server: ServerConfig
    workload: Requests
    shape: Shape
    warmup_s: WarmUp
    repeat: NonNegative

    @property
    def concurrency(self) -> None:
        """None: the load has no one concurrency."""
        return None

    @property
    def load_s(self) -> float:
        """Seconds of load at least, the drain not counted."""
        return self.warmup_s + self.shape.duration_s

    @property
    def point_id(self) -> str:
        """`<arm label>-<shape kind>-r<repeat>-<12 hex of the SHA-256 of the canonical JSON>`."""
        digest = hashlib.sha256(self.canonical().encode()).hexdigest()[:12]
        return f"{self.arm.label}-{self.shape.kind}-r{self.repeat}-{digest}"


class CrossingPlan(Plan):
    """A whole crossing run: arms x one shape x repeats, the same prompts for every arm of a repeat."""

    shape: Shape
    warmup_s: WarmUp = 1.0
    workload: Requests = Requests()

    @model_validator(mode="after")
    def _fits_the_server(self) -> CrossingPlan:
        if isinstance(self.shape, SlotShape) and self.shape.peak > self.server.max_running_requests:
            raise ValueError(
                f"load {self.shape.text!r} exceeds max_running_requests={self.server.max_running_requests}: "
                "the server would queue, not run them; raise max_running_requests"
            )
        return self

    @property
    def loads(self) -> Sequence[Shape]:
        """What each arm is measured under."""
        return (self.shape,)

    def point(self, arm: Arm, server: ServerConfig, at: int, repeat: int) -> CrossingPoint:
        """The point of `arm` under `loads[at]`."""
        return CrossingPoint(
            arm=arm,
            server=server,
            workload=self.workload,
            shape=self.loads[at],
            warmup_s=self.warmup_s,
            repeat=repeat,
        )


AnyPlan = SweepPlan | CrossingPlan
AnyPoint = Point | CrossingPoint
