"""Load over time: how many requests are wanted at once (closed loop), or when each is due (open loop).

A shape is a small frozen value without a clock: time begins at 0 when the load begins. Slot shapes answer
`target(t_s)`, arrival shapes answer `arrivals()`. Both are written as one line of text,
`square:low=2,high=12,period=4,duration=12`, which `shape_text.parse_shape` reads.
"""

from __future__ import annotations

import math
import random
from typing import Annotated, Literal

from pydantic import Field, model_validator

from specswitch.config import NonNegative, Positive, Strict

Seconds = Annotated[float, Field(gt=0)]
Rate = Annotated[float, Field(gt=0)]
UNIT = "_s"
# Of an open loop: each is held in memory, and no server here would answer so many.
MOST_ARRIVALS = 1_000_000


class _Shape(Strict):
    """A shape with a `kind`; everything else is numbers."""

    @property
    def text(self) -> str:
        """The shape as `parse_shape` reads it (a trace: its size, as its times are in a file)."""
        values = {k: v for k, v in self.model_dump().items() if k != "kind"}
        parts = (f"{name.removesuffix(UNIT)}={value:g}" for name, value in values.items())
        return f"{self.model_dump()['kind']}:{','.join(parts)}"


class _LowHigh(_Shape):
    """Slots between `low` and `high`."""

    low: NonNegative
    high: Positive

    @model_validator(mode="after")
    def _ordered(self) -> _LowHigh:
        if self.low >= self.high:
            raise ValueError(f"low={self.low} is not below high={self.high}: swap or change them")
        return self

    @property
    def peak(self) -> int:
        """The most slots wanted at any time."""
        return self.high


class Step(_Shape):
    """`before` slots until `at_s`, `after` slots from then on."""

    kind: Literal["step"] = "step"
    before: NonNegative
    after: NonNegative
    at_s: Seconds
    duration_s: Seconds

    @model_validator(mode="after")
    def _a_step(self) -> Step:
        if self.before == self.after:
            raise ValueError(f"before={self.before} and after={self.after} are the same: no step, change one")
        if self.at_s >= self.duration_s:
            raise ValueError(f"at={self.at_s:g} is not before the end, duration={self.duration_s:g}")
        return self

    @property
    def peak(self) -> int:
        """The most slots wanted at any time."""
        return max(self.before, self.after)

    def target(self, t_s: float) -> int:
        """Slots wanted at `t_s` seconds."""
        return self.before if t_s < self.at_s else self.after


class Ramp(_LowHigh):
    """From `low` to `high` slots in equal stairs over the whole duration."""

    kind: Literal["ramp"] = "ramp"
    duration_s: Seconds

    def target(self, t_s: float) -> int:
        """Slots wanted at `t_s` seconds."""
        return _stairs(self.low, self.high, t_s / self.duration_s)


class Sawtooth(_LowHigh):
    """In every period from `low` to `high` slots in equal stairs, then down at once."""

    kind: Literal["sawtooth"] = "sawtooth"
    period_s: Seconds
    duration_s: Seconds

    def target(self, t_s: float) -> int:
        """Slots wanted at `t_s` seconds."""
        return _stairs(self.low, self.high, _phase(t_s, self.period_s))


class Square(_LowHigh):
    """In every period half the time `low`, then half the time `high` slots."""

    kind: Literal["square"] = "square"
    period_s: Seconds
    duration_s: Seconds

    def target(self, t_s: float) -> int:
        """Slots wanted at `t_s` seconds."""
        return self.low if _phase(t_s, self.period_s) < 0.5 else self.high


class Constant(_Shape):
    """Open loop: a request every 1 / `rate` seconds, `rate` in requests per second."""

    kind: Literal["constant"] = "constant"
    rate: Rate
    duration_s: Seconds

    @model_validator(mode="after")
    def _not_too_many(self) -> Constant:
        _check_arrivals(self.rate, self.duration_s)
        return self

    def arrivals(self, repeat: int = 0) -> tuple[float, ...]:
        """Due times in [0, duration_s), the same in every repeat."""
        return tuple(i / self.rate for i in range(math.ceil(self.rate * self.duration_s)))


class Poisson(_Shape):
    """Open loop: arrivals independent of each other, `rate` per second on average."""

    kind: Literal["poisson"] = "poisson"
    rate: Rate
    duration_s: Seconds
    seed: NonNegative = 1

    @model_validator(mode="after")
    def _not_too_many(self) -> Poisson:
        _check_arrivals(self.rate, self.duration_s)
        return self

    def arrivals(self, repeat: int = 0) -> tuple[float, ...]:
        """Due times in [0, duration_s); the same seed and repeat give the same ones."""
        return _poisson(self.rate, self.duration_s, random.Random(self.seed + repeat))


class Burst(_Shape):
    """Open loop: Poisson arrivals whose rate is a square wave, `low` for half a period, then `high` (1/s)."""

    kind: Literal["burst"] = "burst"
    low: Annotated[float, Field(ge=0)]
    high: Rate
    period_s: Seconds
    duration_s: Seconds
    seed: NonNegative = 1

    @model_validator(mode="after")
    def _ordered(self) -> Burst:
        if self.low >= self.high:
            raise ValueError(f"low={self.low:g} is not below high={self.high:g}: swap or change them")
        _check_arrivals(self.high, self.duration_s)
        return self

    def rate_at(self, t_s: float) -> float:
        """Arrivals per second at `t_s` seconds."""
        return self.low if _phase(t_s, self.period_s) < 0.5 else self.high

    def arrivals(self, repeat: int = 0) -> tuple[float, ...]:
        """Due times in [0, duration_s); the same seed and repeat give the same ones.

        Arrivals at the high rate, of which in the low phase only the share low / high is kept.
        """
        rng = random.Random(self.seed + repeat)
        candidates = _poisson(self.high, self.duration_s, rng)
        return tuple(t for t in candidates if rng.random() * self.high < self.rate_at(t))


class Trace(_Shape):
    """Open loop: recorded due times, seconds since the start, never decreasing."""

    kind: Literal["trace"] = "trace"
    times_s: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Trace:
        late = [i for i in range(1, len(self.times_s)) if self.times_s[i] < self.times_s[i - 1]]
        if late:
            raise ValueError(
                f"arrival {late[0] + 1} ({self.times_s[late[0]]:g} s) is before the one above it: sort them"
            )
        if self.times_s[-1] == 0:
            raise ValueError("all arrivals are at 0 s: a trace needs a time span")
        return self

    @property
    def duration_s(self) -> float:
        """When the last request is due."""
        return self.times_s[-1]

    @property
    def text(self) -> str:
        """What the trace is, in short."""
        return f"trace:{len(self.times_s)} arrivals in {self.duration_s:g} s"

    def arrivals(self, repeat: int = 0) -> tuple[float, ...]:
        """The recorded due times, in every repeat."""
        return self.times_s


SlotShape = Step | Ramp | Sawtooth | Square
ArrivalShape = Constant | Poisson | Burst | Trace
Shape = Annotated[SlotShape | ArrivalShape, Field(discriminator="kind")]


def _check_arrivals(rate: float, duration_s: float) -> None:
    """Raise ValueError where so many requests would arrive that they could not even be written down."""
    if rate * duration_s > MOST_ARRIVALS:
        raise ValueError(
            f"{rate:g} requests per second for {duration_s:g} s are {rate * duration_s:.2g} requests, more than "
            f"{MOST_ARRIVALS:,}: give a lower rate or a shorter duration"
        )


def _phase(t_s: float, period_s: float) -> float:
    """Position within the period, in [0, 1)."""
    return t_s / period_s % 1.0


def _stairs(low: int, high: int, share: float) -> int:
    """The stair at `share` of the way: high - low + 1 stairs, all equally long."""
    return min(high, low + int(share * (high - low + 1)))


def _poisson(rate: float, duration_s: float, rng: random.Random) -> tuple[float, ...]:
    times = []
    t_s = rng.expovariate(rate)
    while t_s < duration_s:
        times.append(t_s)
        t_s += rng.expovariate(rate)
    return tuple(times)
