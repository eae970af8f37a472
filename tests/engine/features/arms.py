"""One workload under every mode of a path, and the plain server's answers to compare with.

A scenario process holds one engine; the modes run in it one after the other, changed through the engine's own
`/set_internal_state` message. `flip` changes the rule every second iteration, so that every request lives through
many switches in the middle of its output.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.children import in_process
from engine.harness import Engine

STRICT = {"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "1"}
MODES = ("always", "off", "flip")
RULES = {"always": None, "off": 0, "crossing": 4}
FLIP_EVERY = 2
LONGEST = 4000  # iterations of one mode

Pair = tuple[Path, Path]


@dataclass
class Answer:
    """What a request came out with; everything that has an entry per token ends at the stop, as the ids do."""

    ids: list[int]
    reason: str
    matched: Any
    text: str
    verifies: int
    accepted: int
    histogram: list[int]
    cached_tokens: int
    logprobs: list[float] = field(default_factory=list)
    top: list[list[tuple[float, int]]] = field(default_factory=list)
    chosen: list[list[float]] = field(default_factory=list)
    errors: str | None = None


@dataclass
class Outcome:
    """One mode's answers by request name, and what the server counted meanwhile."""

    answers: dict[str, Answer]
    plain_steps: int
    speculative_steps: int
    switches: int
    extra: Any = None

    @property
    def ids(self) -> dict[str, list[int]]:
        """Output ids by request name."""
        return {name: answer.ids for name, answer in self.answers.items()}


class Client:
    """Submits named requests to the engine; iterations count from the start of the mode."""

    def __init__(self, engine: Engine, mode: str) -> None:
        self.engine = engine
        self.mode = mode
        self.start = engine.steps
        self.rids: dict[str, str] = {}

    def submit(
        self, name: str, ids: Sequence[int], params: dict[str, Any] | None = None, at: int = 0, **more: Any
    ) -> None:
        """Queue a request for iteration `at` of this mode; arguments as in `Engine.submit`."""
        rid = f"{self.mode}/{name}/"
        self.rids[name] = self.engine.submit(ids, params, at_step=self.start + at, rid=rid, **more)

    def abort(self, name: str, at: int) -> None:
        """Abort a request at iteration `at` of this mode."""
        self.engine.abort(self.rids[name], at_step=self.start + at)


Workload = Callable[[Client], Any]


def set_rule(engine: Engine, at_step: int | None = None, **changes: Any) -> None:
    """Queue a rule change as the HTTP server would send it."""
    from sglang.srt.managers.io_struct import SetInternalStateReq

    engine.send(SetInternalStateReq(server_args={"specswitch": changes}), at_step=at_step)


def answer_of(req: Any) -> Answer:
    """Read a finished request."""
    reason = req.finished_reason.to_json()
    count = len(req.output_ids_through_stop)
    tops = zip(req.output_top_logprobs_val or [], req.output_top_logprobs_idx or [], strict=True)
    return Answer(
        ids=list(req.output_ids_through_stop),
        reason=reason["type"],
        matched=reason.get("matched"),
        text=req.tokenizer.decode(req.output_ids_through_stop),
        verifies=req.spec_verify_ct,
        accepted=req.spec_num_correct_drafts,
        histogram=list(req.spec_correct_drafts_histogram),
        cached_tokens=req.cached_tokens,
        logprobs=list(req.output_token_logprobs_val or [])[:count],
        top=[list(zip(v, i, strict=True)) for v, i in tops][:count],
        chosen=[list(v) for v in req.output_token_ids_logprobs_val or []][:count],
        errors=reason.get("message"),
    )


def _one_mode(engine: Engine, mode: str, workload: Workload) -> Outcome:
    counters = engine.scheduler.specswitch_counters if engine.steps else None
    plain, speculative = (
        (counters.totals.plain_steps, counters.totals.speculative_steps) if counters else (0, 0)
    )
    switches = _switches(engine)
    client = Client(engine, mode)
    if mode in RULES:
        set_rule(engine, threshold=RULES[mode])
    elif mode == "flip":
        for i in range(0, LONGEST, FLIP_EVERY):
            set_rule(engine, engine.steps + i, threshold=0 if i // FLIP_EVERY % 2 else None)
    extra = workload(client)
    _run(engine)
    assert engine.flush(), f"{mode}: the prefix cache could not be emptied"
    totals = engine.scheduler.specswitch_counters.totals
    return Outcome(
        answers={name: answer_of(engine.requests[rid]) for name, rid in client.rids.items()},
        plain_steps=totals.plain_steps - plain,
        speculative_steps=totals.speculative_steps - speculative,
        switches=_switches(engine) - switches,
        extra=extra(client) if callable(extra) else extra,
    )


def _switches(engine: Engine) -> int:
    switch = getattr(engine.worker, "switch", None)
    return 0 if switch is None else switch.switches


def _run(engine: Engine) -> None:
    """`Engine.run`, but rule changes still queued do not keep it going; they are dropped at the end."""
    from sglang.srt.managers.io_struct import SetInternalStateReq

    def only_rules() -> bool:
        return all(isinstance(m, SetInternalStateReq) for ms in engine._pending.values() for m in ms)

    for _ in range(LONGEST):
        if only_rules() and not engine._expected - set(engine._results) and engine.scheduler.is_fully_idle():
            break
        engine.step()
    engine._pending.clear()
    engine.run()


def run_modes(
    path: str, pair: Pair, workload: Workload, modes: Sequence[str] = MODES, **server_args: Any
) -> dict[str, Outcome]:
    """Run `workload` under each mode in one scenario process, checks on.

    Path `none` has the one mode `none`; the mode `stock`, alone, is a speculating server without a rule.

    A workload may return a function of the client, which is called after the run and whose answer is kept.
    """
    return in_process(
        functools.partial(_scenario, path, pair, workload, modes, server_args), env=STRICT, timeout=500
    )


def plain_server(pair: Pair, workload: Workload, **server_args: Any) -> Outcome:
    """The same workload on a server without any speculative option; run once for the same arguments."""
    return _plain_server(pair, workload, tuple(server_args.items()))


@functools.cache
def _plain_server(pair: Pair, workload: Workload, server_args: tuple[tuple[str, Any], ...]) -> Outcome:
    return run_modes("none", pair, workload, **dict(server_args))["none"]


def _scenario(
    path: str, pair: Pair, workload: Workload, modes: Sequence[str], server_args: dict[str, Any]
) -> dict[str, Outcome]:
    if path == "none":
        engine = Engine("none", pair[0], **server_args)
        return {"none": _one_mode(engine, "none", workload)}
    if list(modes) == ["stock"]:
        return {"stock": _one_mode(Engine(path, *pair, **server_args), "stock", workload)}
    switch = {
        "speculative_disable_batch_threshold": 0,
        "specswitch_check": True,
        "speculative_lazy_window": 16,
    }
    engine = Engine(path, *pair, **(switch | server_args))
    return {mode: _one_mode(engine, mode, workload) for mode in modes}


def prompt(seed: int, length: int) -> list[int]:
    """Token ids of a prompt, the same for the same arguments."""
    rng = random.Random(seed * 1009 + length)
    return [rng.randrange(256) for _ in range(length)]
