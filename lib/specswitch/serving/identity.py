"""Is the server that answers the one that was asked for? Judged by what its scheduler processes themselves say.

The engine's plugin loader swallows errors and then serves stock SGLang under any label; and another server may
sit at our port. Each difference is an error class of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specswitch import __version__
from specswitch.config import Rule
from specswitch.serving.control import state_of
from specswitch.serving.errors import (
    IdentityError,
    NotOurServerError,
    PathMismatchError,
    RankCountError,
    RuleMismatchError,
    ShapeMismatchError,
    VersionMismatchError,
    WorkerClassMismatchError,
)
from specswitch.serving.path_rules import PathDecision

# What a rank works out for itself and all must agree on, because it decides when the draft model runs.
EQUAL_ON_ALL_RANKS = ("sync", "lazy_window")


@dataclass(frozen=True, slots=True)
class Expected:
    """What a launch asked for. `ranges`: of the batch table, None without one."""

    nonce: str
    decision: PathDecision
    rule: Rule
    tp: int = 1
    ranges: tuple[tuple[int, int], ...] | None = None


def check_identity(info: Mapping[str, Any], expected: Expected, url: str) -> dict[str, Any]:
    """Compare /server_info with what was asked; returns the server's state dictionary.

    Raises:
        IdentityError: the subclass says what differs.
    """
    state = state_of(info, url)
    ranks = state.get("ranks") or [state]
    for rank in ranks:
        _check_rank(rank, expected, url)
    numbers = sorted(r.get("tp_rank", -1) for r in ranks)
    if numbers != list(range(expected.tp)):
        raise RankCountError(
            f"{expected.tp} tensor parallel ranks were asked, ranks {numbers} have reported at {url}"
        )
    for key in EQUAL_ON_ALL_RANKS:
        _equal_on_all_ranks(ranks, key, url)
    return state


def _equal_on_all_ranks(ranks: Sequence[Mapping[str, Any]], key: str, url: str) -> None:
    values = {rank["tp_rank"]: rank.get(key) for rank in ranks}
    if len(set(values.values())) > 1:
        raise RuleMismatchError(
            f"{key} differs between the tensor parallel ranks at {url}: {values} by rank; they would stop at each "
            "other's collectives: restart the server, and report this if it stays"
        )


def _check_rank(state: Mapping[str, Any], expected: Expected, url: str) -> None:
    decision = expected.decision
    _equal(
        state,
        "nonce",
        expected.nonce,
        NotOurServerError,
        f"another server than the one just started answers at {url}",
    )
    _equal(
        state,
        "version",
        __version__,
        VersionMismatchError,
        "another Specswitch runs in the server: restart it",
    )
    why = f"asked because: {'; '.join(decision.reasons)}"
    _equal(state, "path", decision.path, PathMismatchError, why)
    _equal(state, "worker_class", decision.worker_class, WorkerClassMismatchError, why)
    _equal(state, "overlap", decision.overlap, ShapeMismatchError, why)
    if decision.path != "none":
        _equal(state, "topk", decision.topk, ShapeMismatchError, why)
        _equal(state, "num_draft_tokens", decision.num_draft_tokens, ShapeMismatchError, why)
    switches = expected.rule.threshold is not None or expected.ranges is not None
    ranges = None if expected.ranges is None else [list(r) for r in expected.ranges]
    _equal(state, "ranges", ranges, RuleMismatchError, "the batch table did not arrive")
    keys = ("threshold", "enable_threshold", "dwell") if switches else ("threshold",)
    for key in keys:
        _equal(
            state, key, getattr(expected.rule, key), RuleMismatchError, "the switching rule did not arrive"
        )
    if switches and expected.rule.sync is not None:
        _equal(
            state, "sync", expected.rule.sync, RuleMismatchError, "the server's log says why it chose another"
        )


def _equal(
    state: Mapping[str, Any], key: str, wanted: Any, error: type[IdentityError], explanation: str
) -> None:
    missing = object()
    got = state.get(key, missing)
    if got is missing:
        raise error(f"the server does not report {key!r} (asked: {wanted!r}): {explanation}")
    if got != wanted:
        raise error(f"{key}: asked {wanted!r}, the server has {got!r}; {explanation}")
