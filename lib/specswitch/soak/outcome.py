"""What a soak says: its verdict, numbers for a file, lines for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from specswitch.results.files import write_json
from specswitch.soak.memory import FEWEST, SAMPLE_S, WARM_UP_REQUESTS, WARM_UP_SHARE, Growth
from specswitch.soak.plan import SoakPlan
from specswitch.soak.run import PathRun

SCHEMA_VERSION = 1
SUMMARY = "soak.json"
ERRORS_KEPT = 5


def faults(run: PathRun) -> list[str]:
    """Everything for which this path's soak fails, in words; empty when it passed."""
    found = list(run.troubles)
    if run.tally.failed:
        found.append(f"{run.tally.failed} requests failed, the first: {run.tally.errors[0]}")
    elif run.tally.errors:
        found.append(run.tally.errors[0])
    if run.memory.verdict == "grows":
        found.append(
            f"memory grows by {run.memory.slope:.2f} MiB per 1000 requests: {_by_process(run.memory)}"
        )
    state = run.state
    if state is not None and not (state["switches"] and state["plain_steps"] and state["speculative_steps"]):
        found.append("the server never switched: nothing was tried")
    if run.differing is None:
        found.append("not compared with a plain server")
    else:
        found += [str(d) for d in run.differing if not d.verdict.acceptable]
    return found


def numbers(run: PathRun) -> dict[str, Any]:
    """One path's part of the summary, ready for JSON. What is not known is None."""
    tally, state = run.tally, run.state or {}
    verdicts = None if run.differing is None else [d.verdict for d in run.differing]
    compared = len(tally.kept)
    return {
        "passed": not faults(run),
        "faults": faults(run),
        "ended_by": tally.ended,
        "seconds": tally.seconds,
        "requests": tally.over,
        "requests_per_s": tally.over / tally.seconds if tally.seconds else None,
        "output_tokens": tally.tokens,
        "finished": tally.finished,
        "hung_up": tally.hung_up,
        "aborted": tally.aborted,
        "failed": tally.failed,
        "errors": tally.errors[:ERRORS_KEPT],
        "rule_changes": run.rule_changes,
        **{
            name: state.get(name)
            for name in ("switches", "plain_steps", "speculative_steps", "synced_tokens", "accept_length")
        },
        "compared": None if verdicts is None else compared,
        "compared_tokens": None if verdicts is None else sum(len(k.ids) for k in tally.kept),
        "near_ties": None if verdicts is None else sum(v.kind == "near-tie" for v in verdicts),
        "different": None if verdicts is None else sum(not v.acceptable for v in verdicts),
        "idle_after_s": run.idle_after_s,
        "tokens_left_when_idle": run.tokens_left,
        "flushed": run.flushed,
        "memory_mib_per_1000_requests": asdict(run.memory),
    }


def save(plan: SoakPlan, runs: Sequence[PathRun], folder: Path, about: dict[str, Any]) -> Path:
    """Write the summary of the paths so far. Raises ResultsError."""
    path = folder / SUMMARY
    write_json(
        path,
        {
            "schema_version": SCHEMA_VERSION,
            "passed": len(runs) == len(plan.servers) and not any(map(faults, runs)),
            "asked": {
                "requests": plan.requests,
                "seconds": plan.seconds,
                "seed": plan.seed,
                "threshold": plan.threshold,
                "peak": plan.peak,
                "mix": asdict(plan.mix),
            },
            "paths": {run.path: numbers(run) for run in runs},
            "about": about,
        },
    )
    return path


def describe(run: PathRun) -> str:
    """One path's outcome as lines of text."""
    n, m = numbers(run), run.memory
    rate = "-" if n["requests_per_s"] is None else f"{n['requests_per_s']:.1f}"
    lines = [
        f"{run.path}: {'passed' if n['passed'] else 'FAILED'}",
        f"  {n['requests']} requests in {n['seconds']:.0f} s ({rate}/s, {n['output_tokens']} tokens), "
        f"ended by {n['ended_by']}: {n['finished']} finished, {n['aborted']} aborted, {n['hung_up']} hung up, "
        f"{n['failed']} failed",
        f"  {n['switches']} switches, {n['plain_steps']} plain and {n['speculative_steps']} speculative steps, "
        f"{n['rule_changes']} rule changes",
        f"  compared {n['compared']} outputs ({n['compared_tokens']} tokens): {n['different']} different, "
        f"{n['near_ties']} near-ties",
        f"  idle after {_number(n['idle_after_s'])} s with {n['tokens_left_when_idle']} KV slots in use, cache "
        f"{'emptied' if run.flushed else 'NOT emptied'}",
        f"  memory {_memory(m)}",
    ]
    return "\n".join([*lines, *(f"  - {fault}" for fault in faults(run))])


def _memory(growth: Growth) -> str:
    """The verdict on memory with its numbers; where there are none, why, and what would give some."""
    if growth.slope is None:
        return (
            f"{growth.verdict}: the run was too short to measure its growth ({growth.samples} samples, one in "
            f"{SAMPLE_S:g} s; it takes {FEWEST} that come after {WARM_UP_REQUESTS} requests and after the first "
            f"{WARM_UP_SHARE:.0%} of the run)"
        )
    return (
        f"{growth.verdict}: {_number(growth.slope)} [{_number(growth.low)}, {_number(growth.high)}] MiB per 1000 "
        f"requests, limit {growth.limit:g}; {_number(growth.first_mib)} -> {_number(growth.last_mib)} MiB; "
        f"{_by_process(growth)}"
    )


def _by_process(growth: Growth) -> str:
    return ", ".join(f"{name} {slope:.2f}" for name, slope in growth.by_process.items()) or "no process known"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
