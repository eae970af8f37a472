"""General plugin of SGLang (entry-point group `sglang.srt.plugins`): attach the hooks, or refuse loudly.

The engine's plugin loader swallows exceptions and goes on with the stock server. So a fault in here, in a
server that was asked to run under Specswitch, ends the process with `SystemExit` instead.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)

API_KEY = "SPECSWITCH_API_KEY"  # the clients' key: in the shell of a user whose SGLang may be any


def asked_for() -> bool:
    """Whether this process was started under Specswitch (or with one of its options), not just beside it."""
    return any(name.startswith("SPECSWITCH_") and name != API_KEY for name in os.environ) or any(
        a.startswith("--speculative-disable-batch-threshold") or a.startswith("--speculative-batch-table")
        for a in sys.argv
    )


def register() -> None:
    """Called by SGLang's plugin loader in every process of a server.

    Raises:
        SystemExit: the engine does not fit, or a hook could not be attached, in a server that needs it.
    """
    try:
        _install()
    except Exception as e:
        message = f"Specswitch could not be installed into SGLang: {e}"
        if asked_for():
            raise SystemExit(message) from e
        logger.warning("%s; this server runs without it.", message)


def _install() -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from specswitch.engine import cpu, plain_draft_input, scheduler_hooks, seam

    cpu.install()
    seam.check()
    around, after, before = HookType.AROUND, HookType.AFTER, HookType.BEFORE
    hooks: dict[str, tuple[Callable, HookType]] = {
        "create_worker": (_create_worker, around),
        "add_cli_args": (_add_cli_args, after),
        "from_cli_args": (_from_cli_args, around),
        "get_internal_state": (scheduler_hooks.get_internal_state, after),
        "set_internal_state": (scheduler_hooks.set_internal_state, around),
        "process_decode": (scheduler_hooks.process_decode, around),
        "resolve_overlap": (scheduler_hooks.resolve_overlap, around),
        "spec_metrics": (scheduler_hooks.spec_metrics, around),
        "decode_stats": (scheduler_hooks.decode_stats, around),
        "on_idle": (scheduler_hooks.on_idle, before),
        "commit_len": (scheduler_hooks.commit_len, after),
        "future_store": (plain_draft_input.store_deferred, around),
        "future_resolve": (plain_draft_input.resolve_deferred, around),
        "request_metrics": (scheduler_hooks.request_metrics, around),
    }
    if set(hooks) != set(seam.HOOKED):
        raise RuntimeError(f"hooks and seam differ: {sorted(set(hooks) ^ set(seam.HOOKED))}")
    for key, (function, kind) in hooks.items():
        HookRegistry.register(seam.HOOKED[key].path, function, kind)
    HookRegistry.apply_hooks()
    missing = [n.path for n in seam.HOOKED.values() if n.path not in HookRegistry._patched]
    if missing:
        raise RuntimeError(f"hooks did not apply: {', '.join(missing)}")


def _add_cli_args(answer: Any, parser: argparse.ArgumentParser) -> None:
    from specswitch.engine import switch_args

    switch_args.add_arguments(parser)


def _from_cli_args(original: Callable, cls: type, args: argparse.Namespace) -> Any:
    from specswitch.engine import switch_args
    from specswitch.engine.policy import RuleError

    values = switch_args.collect(args)
    try:
        parsed = switch_args.parse(values)
        if parsed.enabled:
            switch_args.refuse_partial_shape(vars(args))
        server_args = original(cls, args)
        if parsed.enabled:
            algorithm = (server_args.speculative_algorithm or "").upper()
            switch_args.refuse_unsupported(server_args, algorithm in ("EAGLE", "EAGLE3"))
    except RuleError as e:
        raise SystemExit(f"error: {e}") from e
    setattr(server_args, switch_args.ATTRIBUTE, values)
    return server_args


def _create_worker(original: Callable, algorithm: Any, server_args: Any) -> type | None:
    """Return the dynamic subclass of the class that the engine chose, if a rule was given."""
    from specswitch.engine import switch_args
    from specswitch.engine.policy import RuleError
    from specswitch.engine.workers import dynamic_class

    stock = original(algorithm, server_args)
    if not switch_args.of(server_args).enabled:
        return stock
    switch_args.refuse_unsupported(server_args, algorithm.is_eagle())
    chosen = dynamic_class(stock)
    if chosen is None:
        raise RuleError(
            f"no dynamic worker for {stock.__name__}: only EAGLEWorker and EAGLEWorkerV2 have one"
        )
    return chosen
