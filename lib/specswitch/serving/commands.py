"""The command-line verbs about servers: doctor, serve, state, set. Exit codes: 0 success, 1 failure, 2 bad input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from specswitch.option_types import Number, Whole
from specswitch.serving import control
from specswitch.serving.argv import rule_flags
from specswitch.serving.doctor import diagnose
from specswitch.serving.engine_flags import FLAGS, EngineFlagsCommand
from specswitch.serving.errors import FlagError, PreflightError, RuleRefusedError, ServingError
from specswitch.serving.flags import checked_rule
from specswitch.serving.serve import serve

API_KEY = click.option("--api-key", envvar="SPECSWITCH_API_KEY", help="If the server wants one.")
WHOLE_NUMBER = re.compile(r"-?[0-9]+")


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn our errors into a message on standard error and an exit code: 2 for bad input, else 1."""
    try:
        yield
    except (PreflightError, RuleRefusedError) as e:
        click.echo(f"error: {e}", err=True)
        sys.exit(2)
    except ServingError as e:
        click.echo(f"error: {e}", err=True)
        sys.exit(1)


@click.command("doctor", cls=EngineFlagsCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@FLAGS
def doctor_command(flags: tuple[str, ...], as_json: bool) -> None:
    """Say which worker the given SGLang server FLAGS take, why, and what this machine lacks for them.

    Write the flags behind a double dash: specswitch doctor -- --model-path DIR ... Exit code 0: ready to serve;
    1: something is wrong or missing; 2: nothing can be said, for a flag is impossible or there is no model path.
    """
    with exit_codes():
        diagnosis = diagnose(flags)
    click.echo(json.dumps(diagnosis.to_dict(), indent=2) if as_json else diagnosis.to_text())
    sys.exit(diagnosis.exit_code)


@click.command("serve", cls=EngineFlagsCommand)
@click.option("--threshold", type=Whole(min=0), help="Speculate up to this batch; 0 = never.")
@click.option("--enable-threshold", type=Whole(min=0), help="Once off, on again at this batch.")
@click.option("--dwell", type=Whole(min=1), default=1, show_default=True, help="Steps in a mode.")
@click.option("--sync", type=click.Choice(control.SYNC_RULES), help="What happens to the draft KV cache.")
@click.option("--lazy-window", type=Whole(min=1), help="Tokens remembered per request.")
@click.option("--check", is_flag=True, help="Verify the batch after every step (slow).")
@click.option("--synthetic", is_flag=True, help="Allow SGLANG_SIMULATE_* and SGLANG_TEST_* variables.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="File for the server's output.")
@click.option("--ready-timeout", type=Number(min=1), default=600.0, show_default=True)
@FLAGS
def serve_command(
    flags: tuple[str, ...], check: bool, synthetic: bool, log: Path | None, ready_timeout: float, **rule: Any
) -> None:
    """Run a server with the switch in the foreground; SGLang's own FLAGS go behind a double dash.

    Ready is printed when the server has generated tokens and proved which worker it runs. Ctrl-C ends it.
    """
    with exit_codes():
        checked = checked_rule(**rule)
        if checked.threshold is None and (checked.sync or checked.lazy_window or checked.dwell != 1):
            raise FlagError(
                "--dwell, --sync and --lazy-window need --threshold: without it the stock worker runs"
            )
        code = serve(
            [*flags, *rule_flags(checked, check)],
            log_path=log,
            synthetic=synthetic,
            ready_timeout_s=ready_timeout,
            say=click.echo,
        )
    sys.exit(code if code >= 0 else 128 - code)


@click.command("state")
@click.argument("url")
@API_KEY
def state_command(url: str, api_key: str | None) -> None:
    """Print rule, path, mode and counters of the server at URL as JSON.

    Counters begin with the server, so they hold its first request, too: the one by which `specswitch serve` finds it
    ready, or SGLang's own warm-up. Subtract an earlier state to see your requests alone.
    """
    with exit_codes():
        click.echo(json.dumps(control.read_state(_with_scheme(url), api_key=api_key), indent=2))


@click.command("set")
@click.argument("url")
@click.argument("changes", nargs=-1, metavar="KEY=VALUE...", required=True)
@API_KEY
def set_command(url: str, changes: tuple[str, ...], api_key: str | None) -> None:
    """Change the rule of the server at URL, e.g. threshold=8 dwell=2 sync=lazy.

    threshold=none: always speculate. ranges=[[1,4],[9,16]]: exactly in these batch ranges.
    """
    with exit_codes():
        state = control.set_rule(_with_scheme(url), api_key=api_key, **_parse_changes(changes))
        click.echo(json.dumps(state, indent=2))


def _with_scheme(url: str) -> str:
    """The URL, with http:// in front where there is none. Raises PreflightError where it cannot be one."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        possible = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        possible = possible and ("://" in url or parts.port is not None)
    except ValueError:  # a port that is none, an open bracket
        possible = False
    if not possible or any(c.isspace() for c in url):
        raise PreflightError(f"URL {url!r}: write HOST:PORT or http://HOST:PORT, e.g. http://127.0.0.1:30000")
    return full


def _parse_changes(pairs: tuple[str, ...]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key or not text:
            raise RuleRefusedError(f"{pair!r}: write KEY=VALUE, e.g. threshold=8")
        if key in changes:
            raise RuleRefusedError(f"{key} is given twice")
        changes[key] = _value(text)
    return changes


def _value(text: str) -> Any:
    """None, a number, a list (ranges=[[1,4],[9,16]]), or the text itself, which the server then judges."""
    if text.lower() == "none":
        return None
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError as e:
            raise RuleRefusedError(f"{text!r} is no JSON list ({e}): write ranges=[[1,4],[9,16]]") from e
    return int(text) if WHOLE_NUMBER.fullmatch(text) else text


COMMANDS = (doctor_command, serve_command, state_command, set_command)
