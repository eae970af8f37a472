"""Read and change the rule on a running server, through the engine's own /set_internal_state.

A change is checked first and applied between two steps: the scheduler handles requests there, on every rank in
the same iteration.
"""

from __future__ import annotations

import logging
from typing import Any

from specswitch.engine.policy import SYNC_RULES, RuleError, parse_ranges
from specswitch.engine.workers import DynamicWorkerMixin

logger = logging.getLogger(__name__)

KEY = "specswitch"
CHANGEABLE = ("threshold", "enable_threshold", "dwell", "ranges", "sync")


def change_rule(worker: Any, changes: dict[str, Any]) -> None:
    """Apply changes to a dynamic worker, all or none.

    Args:
        worker: the scheduler's model worker.
        changes: any of threshold (None = always), enable_threshold, dwell, ranges, sync.

    Raises:
        RuleError: not a dynamic worker, an unknown key or an impossible value.
    """
    if not isinstance(worker, DynamicWorkerMixin):
        raise RuleError(
            f"this server runs the stock {type(worker).__name__}: start it with "
            "--speculative-disable-batch-threshold to have a rule to change"
        )
    if not isinstance(changes, dict):
        raise RuleError(f"{KEY}={changes!r}: give an object with any of {', '.join(CHANGEABLE)}")
    unknown = sorted(set(changes) - set(CHANGEABLE))
    if unknown:
        raise RuleError(f"unknown key {', '.join(unknown)}: known are {', '.join(CHANGEABLE)}")
    fields = {k: v for k, v in changes.items() if k != "sync"}
    if fields.get("ranges") is not None:
        fields["ranges"] = parse_ranges(fields["ranges"])
    rule = worker.switch.rule.changed(**fields)
    sync = changes.get("sync", worker.sync.rule)
    if sync not in SYNC_RULES:
        raise RuleError(f"sync={sync!r}: choose one of {', '.join(SYNC_RULES)}")
    if rule != worker.switch.rule:
        worker.switch.set_rule(rule)
    worker.sync.set_rule(sync)
    logger.info("Rule changed: %s sync=%s", rule, sync)
