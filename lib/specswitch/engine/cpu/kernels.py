"""Give a plain function the call shape of a jitted kernel, `kernel[grid](*args)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class KernelStandIn:
    """A vectorised torch function called the way the engine launches a Triton kernel.

    The grid is ignored (the function works on the whole batch) and so are launch options.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__

    def __getitem__(self, _grid: Any) -> Callable[..., Any]:
        return self.fn


def stand_in(fn: Callable[..., Any]) -> KernelStandIn:
    """Decorator form of `KernelStandIn`."""
    return KernelStandIn(fn)
