"""Loads whose running batch crosses a threshold, fixed by a seed: the same requests whatever the engine does."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.harness import Engine


@dataclass(frozen=True)
class Ask:
    """One greedy request of exactly `tokens` output tokens; aborted once it has `abort_after` of them."""

    rid: str
    prompt: tuple[int, ...]
    tokens: int
    abort_after: int | None = None


def prompt(rng: random.Random, length: int) -> tuple[int, ...]:
    return tuple(rng.randrange(256) for _ in range(length))


def crossing(seed: int = 3, long: int = 256, short: int = 32) -> tuple[list[Ask], list[Ask]]:
    """Three long requests, and six short ones that join them later: the batch goes 3, 9, 3."""
    rng = random.Random(seed)
    longs = [Ask(f"long{i}", prompt(rng, rng.randint(8, 60)), long) for i in range(3)]
    shorts = [Ask(f"short{i}", prompt(rng, rng.randint(8, 60)), short) for i in range(6)]
    return longs, shorts


def random_requests(count: int, seed: int = 11, longest: int = 128, aborted: float = 0.05) -> list[Ask]:
    """Prompts and outputs of 1 to `longest` tokens; the given share is aborted half-way."""
    rng = random.Random(seed)
    asks = []
    for i in range(count):
        tokens = rng.randint(1, longest)
        ids = prompt(rng, rng.randint(1, longest))
        asks.append(Ask(f"q{i:03d}", ids, tokens))
    for i in rng.sample([i for i, a in enumerate(asks) if a.tokens >= 16], round(count * aborted)):
        a = asks[i]
        asks[i] = Ask(a.rid, a.prompt, a.tokens, abort_after=rng.randint(2, a.tokens - 10))
    return asks


def submit(engine: Engine, ask: Ask, **more: Any) -> None:
    engine.submit(ask.prompt, {"max_new_tokens": ask.tokens, "ignore_eos": True}, rid=ask.rid, **more)


def run_crossing(engine: Engine, longs: Sequence[Ask], shorts: Sequence[Ask], at_step: int = 40) -> None:
    """The long requests from now on, the short ones `at_step` iterations later."""
    start = engine.steps
    for ask in longs:
        submit(engine, ask)
    for ask in shorts:
        submit(engine, ask, at_step=start + at_step)
    engine.run()


def run_closed_loop(engine: Engine, asks: Sequence[Ask], width: Callable[[int], int]) -> None:
    """Keep `width(iteration)` requests in flight until all are done, aborting those that ask for it."""
    waiting, live = deque(asks), {}
    start = engine.steps
    while waiting or live:
        live = {rid: ask for rid, ask in live.items() if not _finished(engine, rid)}
        while waiting and len(live) < width(engine.steps - start):
            ask = waiting.popleft()
            submit(engine, ask)
            live[ask.rid] = ask
        running = set(engine.running())
        for rid, ask in live.items():
            if ask.abort_after is not None and rid in running:
                if len(engine.requests[rid].output_ids) >= ask.abort_after:
                    engine.abort(rid)
        engine.step()
        if engine.steps - start > 20000:
            raise TimeoutError(f"requests still live after 20000 iterations: {sorted(live)}")
    engine.run()


def alternating(low: int = 2, high: int = 8, period: int = 40) -> Callable[[int], int]:
    """Concurrency `low` and `high` in turns of `period` iterations."""
    return lambda iteration: high if iteration // period % 2 else low


def _finished(engine: Engine, rid: str) -> bool:
    return rid in engine.requests and engine.requests[rid].finished()
