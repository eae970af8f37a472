"""Numbers on the command line: what is no number, or out of range, is refused with the cure in plain words."""

from __future__ import annotations

import math
from typing import Any

import click


class Whole(click.IntRange):
    """A whole number within limits, e.g. `Whole(min=1)`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises click.BadParameter, which names the value and what to give."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r}: give a whole number{_limits(self)}", param, ctx)


class Number(click.FloatRange):
    """A finite number within limits, e.g. `Number(min=0, min_open=True)`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises click.BadParameter, which names the value and what to give."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r}: give a number{_limits(self)}", param, ctx)
        return number


def _limits(kind: click.IntRange | click.FloatRange) -> str:
    """` of 1 or more`, ` above 0`, ` from 0 to 9`, or nothing."""
    if kind.min is None:
        return ""
    if kind.max is not None:
        return f" from {kind.min:g} to {kind.max:g}"
    return f" above {kind.min:g}" if kind.min_open else f" of {kind.min:g} or more"
