"""The random requests of a soak. Each is fixed by seed and number, whatever the server does meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from specswitch.load.sender import PromptSource

# How a request is ended early: the client hangs up, or asks the server to abort it.
Abort = Literal["hang-up", "abort"]


@dataclass(frozen=True, slots=True)
class Mix:
    """What the requests are. Lengths in tokens, uniform from 1; the others are shares, 0 to 1.

    `sampled`: of temperature 0.8 instead of greedy. `may_end`: may end at the end-of-text token. `compared`:
    of the greedy requests, to be compared with a plain server.
    """

    longest_prompt: int = 96
    longest_output: int = 64
    aborted: float = 0.05
    sampled: float = 0.2
    may_end: float = 0.25
    compared: float = 0.05


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `abort_at`: when it is ended early, as a share of the time that it is expected to take."""

    number: int
    input_ids: tuple[int, ...]
    output_tokens: int
    temperature: float
    ignore_eos: bool
    abort: Abort | None
    abort_at: float
    compared: bool


class Asks:
    """An endless source of requests: `asks[n]` is request n. `prompts` hold `mix.longest_prompt` ids each.

    A prompt is the beginning of one of `prompts`, which come again: some hit the prefix cache, in part.
    """

    def __init__(self, prompts: PromptSource, mix: Mix, seed: int) -> None:
        self._prompts = prompts
        self._mix = mix
        self._seed = seed

    def __getitem__(self, number: int) -> Ask:
        rng = random.Random(f"{self._seed}/{number}")
        mix = self._mix
        greedy = rng.random() >= mix.sampled
        prompt_tokens = rng.randint(1, mix.longest_prompt)
        aborted = rng.random() < mix.aborted
        return Ask(
            number=number,
            input_ids=tuple(self._prompts[number][:prompt_tokens]),
            output_tokens=rng.randint(1, mix.longest_output),
            temperature=0.0 if greedy else 0.8,
            ignore_eos=rng.random() >= mix.may_end,
            abort=rng.choice(("hang-up", "abort")) if aborted else None,
            abort_at=rng.random(),
            compared=greedy and rng.random() < mix.compared,
        )
