"""Which worker do these flags take: foretold from the rules, and shown by a server that runs with exactly them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specswitch.config import Rule
from specswitch.serving import control, preflight
from specswitch.serving.flags import ServerFlags, parse_flags, rule_of
from specswitch.serving.launch import Server, start
from specswitch.serving.path_rules import SPEC_V2_ENV, PathDecision, decide
from specswitch.serving.path_tree import way, worker_at
from specswitch.serving.spec import LaunchSpec, spec_from_flags

PROOF_TOKENS = 32
_WORKER = ("path", "worker_class", "worker_file", "stock_class", "stock_file")
_SETTINGS = (
    "overlap",
    "topk",
    "num_draft_tokens",
    "spec_v2_env",
    "threshold",
    "enable_threshold",
    "dwell",
    "sync",
)
REPORTED = (*_WORKER, *_SETTINGS, "speculative_steps", "plain_steps")
_SHAPE = (
    "--speculative-num-steps",
    "3",
    "--speculative-eagle-topk",
    "1",
    "--speculative-num-draft-tokens",
    "4",
)
EAGLE3 = ("--speculative-algorithm", "EAGLE3", *_SHAPE)
_TREE = (
    "--speculative-num-steps",
    "3",
    "--speculative-eagle-topk",
    "4",
    "--speculative-num-draft-tokens",
    "8",
)
_RULE = ("--speculative-disable-batch-threshold", "4")


@dataclass(frozen=True, slots=True)
class Foretold:
    """What flags and environment will give. `problems`: why such a server would not start; empty if it would."""

    flags: ServerFlags
    decision: PathDecision
    rule: Rule
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """Flags that people use. `what`: in words; `spec_v2`: SGLANG_ENABLE_SPEC_V2, None where it is unset."""

    what: str
    flags: tuple[str, ...]
    spec_v2: str | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One property of a server. `reported`: by every rank; `agrees`: None where nothing was foretold."""

    what: str
    foretold: Any
    reported: tuple[Any, ...]
    agrees: bool | None


COMMON = (
    Combination("no speculation", ()),
    Combination("EAGLE-3, a chain of three drafts", EAGLE3),
    Combination("the same, variable 0", EAGLE3, "0"),
    Combination("the same, variable misspelt", EAGLE3, "off"),
    Combination("no overlap scheduler", (*EAGLE3, "--disable-overlap-schedule")),
    Combination("a tree of drafts", ("--speculative-algorithm", "EAGLE3", *_TREE)),
    Combination("no draft shape, a Llama", ("--speculative-algorithm", "EAGLE3")),
    Combination("a rule, on v2", (*EAGLE3, *_RULE)),
    Combination("a rule, on v1", (*EAGLE3, *_RULE), "0"),
    Combination("a rule without speculation", _RULE),
    Combination("two pipeline stages", (*EAGLE3, "--pp-size", "2")),
    Combination("another name for EAGLE", ("--speculative-algorithm", "NEXTN", *_SHAPE)),
    Combination("n-grams instead of a draft model", ("--speculative-algorithm", "NGRAM")),
)


def common() -> list[tuple[Combination, PathDecision]]:
    """The combinations that people use, each with its decision for a Llama."""
    return [(c, decide(parse_flags(c.flags), environment({}, c.spec_v2), "LlamaForCausalLM")) for c in COMMON]


def environment(base: Mapping[str, str], spec_v2: str | None) -> dict[str, str]:
    """`base` with SGLANG_ENABLE_SPEC_V2 exactly as given: None unsets it."""
    kept = {name: value for name, value in base.items() if name != SPEC_V2_ENV}
    return kept if spec_v2 is None else kept | {SPEC_V2_ENV: spec_v2}


def foretell(argv: Sequence[str], env: Mapping[str, str]) -> Foretold:
    """What these server flags give in this environment. Raises FlagError for impossible flags."""
    flags = parse_flags(argv)
    decision, problems = preflight.examine(flags, env)
    return Foretold(flags, decision, rule_of(flags), tuple(problems))


def written_spec(argv: Sequence[str], shell: Mapping[str, str], ready_timeout_s: float) -> LaunchSpec:
    """As `spec_from_flags`, but with SGLANG_ENABLE_SPEC_V2 exactly as in `shell`: unset stays unset.

    Raises:
        PreflightError: names the value and the cure.
    """
    spec = spec_from_flags(argv, shell=shell, ready_timeout_s=ready_timeout_s)
    values = environment(spec.environment.values, shell.get(SPEC_V2_ENV))
    return dataclasses.replace(spec, environment=dataclasses.replace(spec.environment, values=values))


def prove(
    seen: Foretold, shell: Mapping[str, str], log_path: Path, ready_timeout_s: float = 300.0
) -> list[Compared]:
    """Start a server with these flags, let it generate, compare what it says about itself with what was foretold.

    It is gone when this returns. Raises as `launch.launch`.
    """
    spec = written_spec(seen.flags.argv, shell, ready_timeout_s)
    with start(spec, log_path) as server:
        return compared(seen, shell.get(SPEC_V2_ENV), generated(server))


def generated(server: Server) -> dict[str, Any]:
    """The server's report after it has made `PROOF_TOKENS` tokens for one more request."""
    control.generate(server.url, [1, 2, 3, 4], PROOF_TOKENS, api_key=server.api_key)
    return server.state()


def compared(seen: Foretold, spec_v2: str | None, state: Mapping[str, Any]) -> list[Compared]:
    """What was foretold beside what a server's `state` says, rank by rank."""
    ranks = state.get("ranks") or [state]
    decision, rule, asked = seen.decision, seen.rule, seen.flags.tensor_parallel_size
    foretold: dict[str, Any] = {
        "path": decision.path,
        "worker_class": decision.worker_class,
        "stock_class": decision.stock_class,
        "stock_file": worker_at(way(decision)[-1], decision).file,
        "overlap": decision.overlap,
        "topk": decision.topk,
        "num_draft_tokens": decision.num_draft_tokens,
        "spec_v2_env": spec_v2,
        "threshold": rule.threshold,
        "enable_threshold": rule.enable_threshold,
        "dwell": rule.dwell,
    }
    if rule.sync is not None or not seen.flags.dynamic:  # else the server chooses
        foretold["sync"] = rule.sync
    found = [Compared("ranks", asked, (len(ranks),), len(ranks) == asked)]
    for what in REPORTED:
        reported = tuple(in_package(r.get(what)) if what.endswith("_file") else r.get(what) for r in ranks)
        agrees = set(reported) == {foretold[what]} if what in foretold else None
        found.append(Compared(what, foretold.get(what), reported, agrees))
    return found


def in_package(file: str | None) -> str | None:
    """A source file from its package on: `sglang/srt/...`. Other files as they are."""
    for package in ("sglang", "specswitch"):
        if file is not None and f"/{package}/" in file:
            return f"{package}/{file.rpartition(f'/{package}/')[2]}"
    return file
