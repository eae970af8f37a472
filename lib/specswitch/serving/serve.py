"""`specswitch serve`: one patched server in the foreground, until it ends or is told to."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from specswitch.explain import why_unreadable
from specswitch.serving.argv import redact
from specswitch.serving.errors import PreflightError
from specswitch.serving.interrupt import signals_interrupt
from specswitch.serving.launch import start
from specswitch.serving.port import is_loopback
from specswitch.serving.spec import spec_from_flags


def serve(
    flags_argv: Sequence[str],
    *,
    log_path: Path | None,
    synthetic: bool,
    ready_timeout_s: float,
    say: Callable[[str], None],
) -> int:
    """Run the server that the flags describe. Returns 0 after Ctrl-C or SIGTERM, else the server's exit code.

    Args:
        flags_argv: server flags, ours included.
        log_path: file for the server's output; None: our own output.
        synthetic: allow simulate and test variables of the engine.
        ready_timeout_s: seconds until readiness.
        say: prints one line for the user.

    Raises:
        ServingError: it cannot start, did not get ready, or is not the server that was asked for.
    """
    with signals_interrupt():
        try:
            spec = spec_from_flags(flags_argv, synthetic=synthetic, ready_timeout_s=ready_timeout_s)
            if log_path is not None:
                _check_log(log_path)
            for reason in spec.expected.decision.reasons:
                say(f"  {reason}")
            say(f"Starting: {shlex.join(redact(spec.argv))}")
            if not is_loopback(spec.host):
                say(f"Other machines can reach this server: host {spec.host}")
            with start(spec, log_path) as server:
                s = server.identity
                say(
                    f"Ready: {server.url} path={s['path']} worker={s['worker_class']} threshold={s['threshold']} "
                    f"sync={s['sync']} pid={server.pid}"
                )
                return server.wait()
        except KeyboardInterrupt:
            say("Stopped.")
            return 0


def _check_log(path: Path) -> None:
    """Raise PreflightError, which names the file, unless a log can be appended to it."""
    try:
        with open(path, "ab"):
            pass
    except OSError as problem:
        raise PreflightError(
            f"--log {str(path)!r} cannot be written ({why_unreadable(problem)}): give a file in a folder that "
            "exists and that you may write to"
        ) from problem
