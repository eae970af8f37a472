"""Simulated acceptance: how far the engine's random draws alone move a rate.

Asked for an accept length, the engine accepts in each verify step either the whole number below it or the one
above, for every request of the batch alike, drawn so that the mean is what was asked for (its default method).
"""

from __future__ import annotations

import math


def draw_scatter(stated: float, verify_steps: float) -> float:
    """Standard deviation of the accept length that `verify_steps` draws give, as a share of the stated one.

    Where every step of a point verifies, its rate scatters by as much. Raises ValueError without a step.
    """
    if not verify_steps > 0:
        raise ValueError(f"{verify_steps} verify steps: the scatter of at least one can be told")
    above = stated % 1
    return math.sqrt(above * (1 - above) / verify_steps) / stated
