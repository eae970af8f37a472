"""What keeps a soaked server from settling: a tide of requests across the threshold, and rules that change."""

from __future__ import annotations

import random
from typing import Any

PHASE_S = (0.3, 2.0)
RULE_S = (2.0, 8.0)
ONE_MODE_S = (0.3, 1.5)  # under never or always, where nothing crosses


class Tide:
    """How many requests are wanted at once: up to the threshold and above it in turns, for a random while each.

    Ask for rising times only. `peak` > `threshold` >= 1, else ValueError.
    """

    def __init__(self, threshold: int, peak: int, seed: int) -> None:
        if not 1 <= threshold < peak:
            raise ValueError(f"threshold={threshold}, peak={peak}: give 1 <= threshold < peak to cross it")
        self._rng = random.Random(f"tide/{seed}")
        self._sides = ((1, threshold), (threshold + 1, peak))
        self._phase = 0
        self._level = self._rng.randint(1, threshold)
        self._until_s = 0.0

    def target(self, t_s: float) -> int:
        """Requests wanted `t_s` seconds after the start."""
        while t_s >= self._until_s:
            self._until_s += self._rng.uniform(*PHASE_S)
            self._level = self._rng.randint(*self._sides[self._phase % 2])
            self._phase += 1
        return self._level


class Rules:
    """Random rules around a threshold, as arguments of `set_rule`, and the pauses between them."""

    def __init__(self, threshold: int, seed: int) -> None:
        self._rng = random.Random(f"rules/{seed}")
        self._threshold = threshold
        self._crossed = True

    def pause_s(self) -> float:
        """Seconds until the next change."""
        return self._rng.uniform(*(RULE_S if self._crossed else ONE_MODE_S))

    def draw(self) -> dict[str, Any]:
        """The next rule: mostly a threshold near the given one; now and then never, or always, speculate."""
        rng, near = self._rng, self._threshold
        threshold = rng.choice((near, near, near, max(1, near - 2), near + 2, 0, None))
        self._crossed = bool(threshold)
        enable = rng.randint(1, threshold) if threshold and rng.random() < 0.3 else None
        return {
            "threshold": threshold,
            "enable_threshold": enable,
            "dwell": rng.choice((1, 1, 4)),
            "sync": rng.choice(("lazy", "lazy", "eager", "stale")),
        }
