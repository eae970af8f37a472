"""Wait for a server: its process, its health, tokens it has really generated, and its identity, in that order."""

from __future__ import annotations

import time
from typing import Any

from specswitch.serving import control
from specswitch.serving.errors import DraftMismatchError, ReadyTimeoutError, ServerUnreachableError
from specswitch.serving.identity import Expected, check_identity
from specswitch.serving.process import ServerProcess

POLL_S = 0.2
PROBE_IDS = [0, 1, 2, 3]
PROBE_TOKENS = 8  # more than one, so that a decode step runs, too
SMOKE_PROMPT = "This is a test. This is a test. This is a test. This is a"
SMOKE_TOKENS = 64


def wait_until_ready(
    process: ServerProcess, url: str, expected: Expected, timeout_s: float, api_key: str | None = None
) -> dict[str, Any]:
    """Returns the state dictionary of a server that has generated tokens and proved its identity.

    Raises:
        ServerExitedError: the process ended, at once when it does.
        ReadyTimeoutError: it did not get ready within `timeout_s` seconds.
        IdentityError: another server, path, worker or rule than asked.
    """
    deadline_s = time.monotonic() + timeout_s
    problem = "nothing was tried"
    while True:
        process.raise_if_exited("before it was ready")
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise _timeout(process, timeout_s, problem)
        try:
            control.check_health(url, api_key=api_key, timeout_s=min(left_s, 5.0))
            _generate_some(url, api_key, left_s)
            info = control.server_info(url, api_key=api_key, timeout_s=left_s)
            break
        except ServerUnreachableError as e:
            problem = str(e)
        time.sleep(min(POLL_S, max(0.0, deadline_s - time.monotonic())))
    process.raise_if_exited("while it was getting ready")
    return check_identity(info, expected, url)


def smoke_accept_length(
    url: str, least: float = 1.05, api_key: str | None = None, timeout_s: float = 60.0
) -> float | None:
    """Accept length over one short repetitive answer; None if nothing was verified (speculation is off).

    Raises:
        DraftMismatchError: it is below `least`: practically no draft was right.
    """
    before = control.read_state(url, api_key=api_key)
    control.generate(url, SMOKE_PROMPT, SMOKE_TOKENS, api_key=api_key, timeout_s=timeout_s)
    after = control.read_state(url, api_key=api_key)
    proposed = after["proposed"] - before["proposed"]
    if not proposed or not after.get("num_draft_tokens"):
        return None
    verifies = proposed / (after["num_draft_tokens"] - 1)
    length = (after["accepted"] - before["accepted"]) / verifies + 1
    if length < least:
        raise DraftMismatchError(
            f"accept length {length:.2f} over {verifies:.0f} verify steps, {least:g} is the least expected: the draft "
            "is probably not the draft of this target"
        )
    return length


def _generate_some(url: str, api_key: str | None, timeout_s: float) -> None:
    answer = control.generate(url, PROBE_IDS, PROBE_TOKENS, api_key=api_key, timeout_s=timeout_s)
    tokens = (answer.get("meta_info") or {}).get("completion_tokens")
    if not tokens:
        raise ServerUnreachableError(f"{url}/generate answered without any token: {str(answer)[:200]}")


def _timeout(process: ServerProcess, timeout_s: float, problem: str) -> ReadyTimeoutError:
    where = f" Log: {process.log_path}" if process.log_path else ""
    return ReadyTimeoutError(
        f"the server was not ready within {timeout_s:g} s ({problem}): raise ready_timeout_s, or see its log.{where}"
        f"\n{process.log_tail()}"
    )
