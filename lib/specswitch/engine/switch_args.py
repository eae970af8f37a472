"""The server's own arguments: their names, `--help` texts, checks, and how they reach the children.

The engine's `ServerArgs.from_cli_args` keeps dataclass fields only; ours ride on the instance as one plain
dictionary, `server_args.specswitch_args`, which is pickled to the scheduler processes with it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specswitch.engine.policy import SYNC_RULES, Rule, RuleError, load_batch_table

ATTRIBUTE = "specswitch_args"
DEFAULT_WINDOW = 128
DRAFT_SHAPE = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
FIELDS = (
    "speculative_disable_batch_threshold",
    "speculative_enable_batch_threshold",
    "speculative_switch_dwell",
    "speculative_draft_sync",
    "speculative_lazy_window",
    "speculative_batch_table",
    "specswitch_check",
)


@dataclass(frozen=True, slots=True)
class SwitchArgs:
    """Parsed and checked switch arguments of one server."""

    rule: Rule
    sync: str = "lazy"
    lazy_window: int = DEFAULT_WINDOW
    check: bool = False
    enabled: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the switch's options to the engine's parser as a group of their own."""
    g = parser.add_argument_group("dynamic speculation disable (specswitch)")
    g.add_argument(
        "--speculative-disable-batch-threshold",
        type=int,
        metavar="N",
        help="Speculate only while at most N requests decode; larger batches run plain decode steps. "
        "0 = never speculate. Unset = always (the stock worker runs).",
    )
    g.add_argument(
        "--speculative-enable-batch-threshold",
        type=int,
        metavar="M",
        help="Hysteresis: once off, speculate again only at a batch of M or less (M <= N; default N).",
    )
    g.add_argument(
        "--speculative-switch-dwell",
        type=int,
        default=1,
        metavar="STEPS",
        help="Stay at least this many decode steps in a mode (default 1).",
    )
    g.add_argument(
        "--speculative-draft-sync",
        choices=SYNC_RULES,
        default="lazy",
        help="What happens to the draft KV cache in plain steps: lazy = remember hidden states and catch up in "
        "one batched pass (default); eager = catch up after every step; stale = nothing (control).",
    )
    g.add_argument(
        "--speculative-lazy-window",
        type=int,
        default=DEFAULT_WINDOW,
        metavar="TOKENS",
        help=f"Lazy sync: most plain-step tokens remembered per request (default {DEFAULT_WINDOW}).",
    )
    g.add_argument(
        "--speculative-batch-table",
        metavar="FILE",
        help='JSON file {"speculate": [[first, last], ...]}: batch ranges in which to speculate, instead of N.',
    )
    g.add_argument(
        "--specswitch-check",
        action="store_true",
        help="Verify the batch's invariants after every decode step (slow; for tests and fault finding).",
    )


def collect(args: argparse.Namespace | dict[str, Any]) -> dict[str, Any]:
    """Our values out of a parsed namespace, as a plain picklable dictionary."""
    values = args if isinstance(args, dict) else vars(args)
    return {name: values[name] for name in FIELDS if name in values}


def parse(values: dict[str, Any] | None) -> SwitchArgs:
    """Check the collected values.

    Raises:
        RuleError: names the option, its value and the cure.
    """
    v = values or {}
    threshold = v.get("speculative_disable_batch_threshold")
    table = v.get("speculative_batch_table")
    rule = Rule(
        threshold=threshold,
        enable_threshold=v.get("speculative_enable_batch_threshold"),
        dwell=v.get("speculative_switch_dwell", 1),
        ranges=load_batch_table(table) if table is not None else None,
    )
    sync = v.get("speculative_draft_sync", "lazy")
    if sync not in SYNC_RULES:
        raise RuleError(f"draft sync {sync!r}: choose one of {', '.join(SYNC_RULES)}")
    window = v.get("speculative_lazy_window", DEFAULT_WINDOW)
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise RuleError(f"lazy window {window!r}: give a whole number of tokens >= 1")
    return SwitchArgs(
        rule=rule,
        sync=sync,
        lazy_window=window,
        check=bool(v.get("specswitch_check", False)),
        enabled=threshold is not None or table is not None,
    )


def of(server_args: Any) -> SwitchArgs:
    """The switch arguments that ride on an engine `ServerArgs`; defaults (not enabled) if there are none."""
    return parse(getattr(server_args, ATTRIBUTE, None))


def refuse_partial_shape(values: dict[str, Any]) -> None:
    """Refuse a draft shape given in part, which the engine answers with a comparison to None.

    Args:
        values: the parsed command line of a server with a rule.

    Raises:
        RuleError: names what is missing.
    """
    missing = [name for name in DRAFT_SHAPE if values.get(name) is None]
    if 0 < len(missing) < len(DRAFT_SHAPE):
        options = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise RuleError(f"the draft's shape is incomplete: give {options} as well, or none of the three")


def refuse_unsupported(server_args: Any, path_is_eagle: bool) -> None:
    """Refuse combinations in which the decision or the bookkeeping would not hold.

    Raises:
        RuleError: with the reason.
    """
    reasons = []
    if not path_is_eagle:
        reasons.append(
            f"speculative algorithm {server_args.speculative_algorithm!r} is not EAGLE/EAGLE3: "
            "there is nothing to switch"
        )
    if getattr(server_args, "enable_dp_attention", False):
        reasons.append("DP attention: ranks see different batches, so they could decide differently")
    if getattr(server_args, "pp_size", 1) > 1:
        reasons.append(f"pipeline parallel size {server_args.pp_size}: only 1 is supported")
    if getattr(server_args, "enable_two_batch_overlap", False):
        reasons.append("two-batch overlap: it splits batches by their verify shape")
    if getattr(server_args, "speculative_adaptive", False):
        reasons.append(
            "--speculative-adaptive: it changes the draft width behind the switch; use one of the two"
        )
    if getattr(server_args, "enable_multi_layer_eagle", False):
        reasons.append("multi-layer EAGLE: its worker keeps another draft state")
    if path_is_eagle:
        reasons += _pairing_reasons(server_args)
    if reasons:
        raise RuleError("dynamic speculation disable refused: " + "; ".join(reasons))


def _pairing_reasons(server_args: Any) -> list[str]:
    """Why the draft does not go with the algorithm; the engine would load it and accept nothing, or die late."""
    draft = getattr(server_args, "speculative_draft_model_path", "")
    if draft is None:
        return ["no draft model: give --speculative-draft-model-path, else the engine loads the target twice"]
    algorithm = str(server_args.speculative_algorithm).upper()
    names = _architectures(draft)
    head = any("Eagle3" in name for name in names)
    if algorithm == "EAGLE" and head:
        return [f"--speculative-algorithm EAGLE with a {names[0]}: no draft would be accepted; use EAGLE3"]
    if algorithm == "EAGLE3" and names and not head:
        return [f"the draft {draft!r} is a {names[0]}, not an EAGLE-3 head"]
    return []


def _architectures(model: str) -> list[str]:
    """What a local model directory's config.json says it is; empty if it is elsewhere or says nothing."""
    try:
        config = json.loads((Path(model) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(config.get("architectures") or ())
