"""Asked and got: the columns of a row that say what really ran, taken from the running server.

A path chosen by an environment variable or a warning line is easily another than the one in the label; a row
whose server differs from its label is never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specswitch.load.crossing_plan import AnyPoint
from specswitch.serving.errors import IdentityError

RULE = ("threshold", "enable_threshold", "dwell", "sync")


def identity_row(point: AnyPoint, state: Mapping[str, Any]) -> dict[str, Any]:
    """The identity columns of a row, from the server's own report.

    `policy` is the rule in force as one object; `threshold` and its companions stand beside it flat.

    Raises:
        IdentityError: path, overlap, draft shape, worker kind or rule are not as asked.
    """
    wrong = differences(asked_of(point), state)
    if wrong:
        raise IdentityError(
            f"{point.point_id}: the server ({state.get('worker_class')}) is not what was asked "
            f"({wrong}): nothing was measured"
        )
    check_rule(point, state)
    rule = {name: state.get(name) for name in RULE}
    return {
        "path": state["path"],
        "worker_class": state["worker_class"],
        "stock_class": state.get("stock_class"),
        "overlap": state["overlap"],
        "topk": state.get("topk"),
        "num_draft_tokens": state.get("num_draft_tokens"),
        "spec_v2_env": state.get("spec_v2_env"),
        **rule,
        "policy": {**rule, "ranges": state.get("ranges"), "lazy_window": state.get("lazy_window")},
    }


def asked_of(point: AnyPoint) -> dict[str, Any]:
    """What the server's report must say for this point, the rule apart."""
    server = point.server
    asked: dict[str, Any] = {
        "path": server.path,
        "overlap": server.overlap if server.path == "none" else server.path == "v2",
        "dynamic": server.rule.threshold is not None,
    }
    if server.path != "none":
        asked |= {"topk": server.topk, "num_draft_tokens": server.num_draft_tokens}
    return asked


def check_rule(point: AnyPoint, state: Mapping[str, Any]) -> None:
    """Raise IdentityError unless the rule in force is the point's; a sync rule that it leaves open may be any."""
    rule = point.server.rule
    if rule.threshold is None:
        return
    asked = {name: getattr(rule, name) for name in RULE if name != "sync" or rule.sync is not None}
    wrong = differences(asked, state)
    if wrong:
        raise IdentityError(f"{point.point_id}: another rule is in force ({wrong})")


def differences(asked: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """`threshold: asked 4, got 8; ...` for every asked entry that differs; empty when all agree."""
    return "; ".join(f"{k}: asked {v!r}, got {got.get(k)!r}" for k, v in asked.items() if got.get(k) != v)
