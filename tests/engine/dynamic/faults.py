"""Faults put into the worker's own source, one line each, and a small load that is to notice them.

A fault replaces a piece of text in one of our modules before the child process imports it. So a fault is exactly
the line that somebody might forget, and one that no longer matches the source is an error, not a test that passes.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.dynamic import draft_rows, loads, runs
from engine.dynamic.draft_rows import Rows
from engine.dynamic.loads import Ask
from engine.dynamic.runs import Pair
from engine.harness import Engine

WINDOW = 8
MOST_STEPS = 400


@dataclass(frozen=True)
class Fault:
    """`edits`: (module under specswitch.engine, text that occurs once, text put in its place).

    `caught_by`: regular expression over what noticed it: an exception, or one of the observations of `probe`.
    `rule`: changes to the threshold of 4.
    """

    what: str
    path: str
    edits: tuple[tuple[str, str, str], ...]
    caught_by: str
    options: dict[str, Any] = field(default_factory=dict)
    retract: bool = False
    rule: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def inject(edits: tuple[tuple[str, str, str], ...]) -> None:
    """Import the edited modules in the place of the real ones."""
    sources: dict[str, str] = {}
    for module, old, new in edits:
        name = f"specswitch.engine.{module}"
        if name in sys.modules:
            raise RuntimeError(f"{name} is imported already: the fault would not be in it")
        spec = importlib.util.find_spec(name)
        source = sources.get(name) or spec.loader.get_source(name)  # type: ignore[union-attr]
        if source.count(old) != 1:
            raise LookupError(f"{old!r} occurs {source.count(old)} times in {name}: adapt the fault")
        sources[name] = source.replace(old, new)
    for name, source in sources.items():
        _replace(name, source)


def _replace(name: str, source: str) -> None:
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module
    setattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2], module)
    exec(compile(source, f"<{name} with a fault>", "exec"), module.__dict__)


@dataclass
class Reference:
    """What a right server does with the probe's load: the plain one's outputs, the always speculating one's rows."""

    outputs: dict[str, list[int]]
    rows: Rows


SECOND = ("short0", "short1", "short2", "long0")


def crossing() -> tuple[list[Ask], list[Ask]]:
    """The short requests end one after the other, in the order of the batch; the first before its window is full."""
    longs, shorts = loads.crossing(seed=5, long=60)
    return longs, [Ask(a.rid, a.prompt, 9 + 3 * i if i else WINDOW - 2) for i, a in enumerate(shorts)]


def second_turn(outputs: dict[str, list[int]], rid: str) -> list[int]:
    """A prompt that contains a request's whole text; the short ones' was made while speculation was off."""
    [ask] = [a for asks in crossing() for a in asks if a.rid == rid]
    return [*ask.prompt, *outputs[rid], *loads.prompt(random.Random(2), 5)]


def second_turns(engine: Engine, first: dict[str, list[int]]) -> dict[str, list[int]]:
    """Each alone, one after the other; all outputs."""
    outputs = dict(first)
    for rid in SECOND:
        name = f"second {rid}"
        engine.submit(second_turn(first, rid), {"max_new_tokens": 10, "ignore_eos": True}, rid=name)
        outputs[name] = engine.run(MOST_STEPS)[name].output_ids
    return outputs


def serve(engine: Engine) -> tuple[dict[str, list[int]], Rows]:
    """A crossing load, its first request (which is never retracted) with logprobs; then the second turns."""
    watch = draft_rows.Watch(engine)
    longs, shorts = crossing()
    for i, ask in enumerate(longs):
        loads.submit(engine, ask, return_logprob=i == 0)
    for i, ask in enumerate(shorts):
        loads.submit(engine, ask, at_step=12 if i >= 3 else 15)  # the first three are prefilled while off
    first = {rid: out.output_ids for rid, out in engine.run(MOST_STEPS).items()}
    return second_turns(engine, first), watch.last


def reference(path: str, pair: Pair, what: str) -> Any:
    """`what`: "outputs" of the plain server or "rows" of the stock worker that prefills the second turn itself."""
    engine = Engine(path, pair[0], None if path == "none" else pair[1], disable_radix_cache=what == "rows")
    outputs, rows = _plain(engine) if path == "none" else serve(engine)
    return outputs if what == "outputs" else rows


def _plain(engine: Engine) -> tuple[dict[str, list[int]], Rows]:
    for ask in [a for asks in crossing() for a in asks]:
        loads.submit(engine, ask)
    first = {rid: out.output_ids for rid, out in engine.run(MOST_STEPS).items()}
    return second_turns(engine, first), {}


def probe(pair: Pair, fault: Fault, right: Reference) -> list[str]:
    """Serve the load on a server with this fault; what is wrong with the result, empty if nothing is."""
    inject(fault.edits)
    given = runs.options(4, speculative_lazy_window=WINDOW) | {"decode_log_interval": 1} | fault.options
    engine = Engine(fault.path, *pair, **given)
    if fault.rule:
        from specswitch.engine import control

        control.change_rule(engine.worker, fault.rule)
    outputs, rows = serve(engine)
    scheduler = engine.scheduler
    observed: list[tuple[str, Callable[[], bool]]] = [
        ("answers are missing", lambda: outputs.keys() != right.outputs.keys()),
        ("outputs differ", lambda: outputs != right.outputs),
        ("draft rows differ", lambda: draft_rows.differing(rows, right.rows)[1] > 0),
        ("plain steps counted as verifies", lambda: _verifies_differ(engine)),
        ("plain steps in the engine's accept length", lambda: _statistics_differ(scheduler)),
        ("did not switch", lambda: _hardly_switched(scheduler)),
        ("cache could not be flushed", lambda: not engine.flush()),
    ]
    return [name for name, wrong in observed if wrong()]


def _verifies_differ(engine: Engine) -> bool:
    of_requests = sum(req.spec_verify_ct for req in engine.requests.values())
    if any(req.retraction_count for req in engine.requests.values()):
        return False
    return of_requests != engine.scheduler.specswitch_counters.totals.verified_requests


def _statistics_differ(scheduler: Any) -> bool:
    """Under overlap the engine also counts rows of requests that have just ended."""
    ours = scheduler.specswitch_counters.totals.verified_requests
    return not ours <= scheduler.spec_total_num_forward_ct <= ours + 20


def _hardly_switched(scheduler: Any) -> bool:
    totals = scheduler.specswitch_counters.totals
    return min(totals.plain_steps, totals.speculative_steps) < 10
