"""Talk to a running server: read its state, change its rule, empty its cache, generate a few tokens.

Works with any URL, launched by us or not. Proxies from the environment are ignored.
"""

from __future__ import annotations

import functools
import re
import ssl
from collections.abc import Mapping
from typing import Any

import httpx

from specswitch.config import SyncRule
from specswitch.serving.batch_table import are_ranges
from specswitch.serving.errors import PluginMissingError, RuleRefusedError, ServerUnreachableError

KEY = "specswitch"
SYNC_RULES: tuple[SyncRule, ...] = ("lazy", "eager", "stale")
CHANGEABLE = ("threshold", "enable_threshold", "dwell", "ranges", "sync")
TIMEOUT_S = 30.0
LARGEST = 2**31 - 1  # no batch and no dwell comes near it


def server_info(url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Everything that GET /server_info answers.

    Raises:
        ServerUnreachableError: nothing answers, or not with JSON.
    """
    return _json(_request("GET", url, "/server_info", api_key=api_key, timeout_s=timeout_s))


def read_state(url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """What the server says about its rule, path and counters (rank 0; every rank under `ranks` if several).

    Raises:
        PluginMissingError: a stock SGLang answers.
        ServerUnreachableError: nothing answers.
    """
    return state_of(server_info(url, api_key=api_key, timeout_s=timeout_s), url)


def state_of(info: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Our dictionary out of a /server_info answer. Raises PluginMissingError if there is none."""
    states = info.get("internal_states") or [{}]
    state = states[0].get(KEY) if isinstance(states[0], dict) else None
    if not isinstance(state, dict):
        raise PluginMissingError(
            f"the server at {url} runs stock SGLang (version {info.get('version')}) without Specswitch: its "
            "plugin did not load; `specswitch doctor` says why"
        )
    return state


def set_rule(
    url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S, **changes: Any
) -> dict[str, Any]:
    """Change the rule of a running server, between two of its steps; returns the state read back.

    Args:
        url: the server.
        api_key: if the server wants one.
        timeout_s: seconds for each of the two requests.
        changes: any of threshold (None = always speculate), enable_threshold, dwell, sync, and `ranges`,
            [first, last] batch ranges in which to speculate, which take the place of the thresholds. A threshold
            below the enable_threshold in force, or None, without a new one: the server drops the hysteresis.

    Raises:
        RuleRefusedError: an impossible value, a server without a rule, or a change that did not take.
    """
    _check_changes(changes)
    before = read_state(url, api_key=api_key, timeout_s=timeout_s)
    if not before.get("dynamic", True):
        raise RuleRefusedError(
            f"the server at {url} runs the stock {before.get('worker_class')}: it has no rule to change; start it "
            "with a threshold"
        )
    if changes.get("enable_threshold") is not None:  # a threshold alone below it drops the hysteresis
        _check_order({**before, **changes})
    body = {"server_args": {KEY: changes}}
    answer = _request("POST", url, "/set_internal_state", json=body, api_key=api_key, timeout_s=timeout_s)
    took = _json(answer) == [True]
    after = read_state(url, api_key=api_key, timeout_s=timeout_s)
    if not took:
        why = after.get("last_refusal") or f"its log says why (answer {answer.text[:200]})"
        raise RuleRefusedError(f"the server at {url} refused {changes}: {why}")
    wrong = {k: after.get(k) for k, v in changes.items() if after.get(k) != v}
    if wrong:
        raise RuleRefusedError(f"the server at {url} was told {changes}, but has {wrong}")
    return after


def flush_cache(url: str, *, api_key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
    """Empty the prefix cache. The engine waits until it is idle, `timeout_s` at most.

    Raises:
        ServerUnreachableError: it refused, e.g. because requests still run.
    """
    params = {"timeout": f"{timeout_s:g}"}
    _request("POST", url, "/flush_cache", params=params, api_key=api_key, timeout_s=timeout_s + 10)


def check_health(url: str, *, api_key: str | None = None, timeout_s: float = 5.0) -> None:
    """Raises ServerUnreachableError, with the reason, unless /health answers 200."""
    _request("GET", url, "/health", api_key=api_key, timeout_s=timeout_s)


def generate(
    url: str,
    prompt: str | list[int],
    max_new_tokens: int,
    *,
    api_key: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Any]:
    """One greedy answer of exactly `max_new_tokens` tokens: the engine's JSON, meta_info and all."""
    body = {
        ("text" if isinstance(prompt, str) else "input_ids"): prompt,
        "sampling_params": {"temperature": 0.0, "max_new_tokens": max_new_tokens, "ignore_eos": True},
    }
    return _json(_request("POST", url, "/generate", json=body, api_key=api_key, timeout_s=timeout_s))


def _request(
    method: str, url: str, path: str, *, api_key: str | None, timeout_s: float, **kwargs: Any
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(
            trust_env=False, timeout=timeout_s, headers=headers, verify=_certificates()
        ) as client:
            answer = client.request(method, url.rstrip("/") + path, **kwargs)
    except httpx.ConnectError as e:
        raise ServerUnreachableError(
            f"{method} {url}{path}: nothing answers there ({_why(e)}): is the server up, and is the URL its own?"
        ) from e
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise ServerUnreachableError(f"{method} {url}{path}: {e or type(e).__name__}") from e
    if answer.status_code != httpx.codes.OK:
        raise ServerUnreachableError(f"{method} {url}{path}: HTTP {answer.status_code}: {answer.text[:300]}")
    return answer


def _why(problem: Exception) -> str:
    """What the system says, in lower case and without its number, e.g. `connection refused`."""
    return re.sub(r"^\[Errno -?\d+\] ", "", str(problem) or type(problem).__name__).lower()


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Read once: it takes longer than a request to a server on this machine."""
    return httpx.create_ssl_context(trust_env=False)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError as e:
        raise ServerUnreachableError(
            f"{answer.request.url} did not answer with JSON: is this an SGLang server? {answer.text[:100]!r}"
        ) from e


def _check_changes(changes: Mapping[str, Any]) -> None:
    if not changes:
        raise RuleRefusedError(f"nothing to change: give any of {', '.join(CHANGEABLE)}")
    for key, value in changes.items():
        if key not in CHANGEABLE:
            raise RuleRefusedError(f"{key}={value!r}: known are {', '.join(CHANGEABLE)}")
        whole = isinstance(value, int) and not isinstance(value, bool)
        if key in ("threshold", "enable_threshold") and not (value is None or (whole and value >= 0)):
            raise RuleRefusedError(f"{key}={value!r}: give a whole number >= 0, or none")
        if key == "dwell" and not (whole and value >= 1):
            raise RuleRefusedError(f"dwell={value!r}: give a whole number of steps >= 1")
        if whole and value > LARGEST:
            raise RuleRefusedError(f"{key}={value!r}: give a whole number of {LARGEST} or less")
        if key == "ranges" and not (value is None or (are_ranges(value) and value[-1][1] <= LARGEST)):
            raise RuleRefusedError(f"ranges={value!r}: give ascending pairs, e.g. [[1,4],[9,16]], or none")
        if key == "sync" and value not in SYNC_RULES:
            raise RuleRefusedError(f"sync={value!r}: choose one of {', '.join(SYNC_RULES)}")


def _check_order(rule: Mapping[str, Any]) -> None:
    threshold, enable = rule.get("threshold"), rule.get("enable_threshold")
    if enable is not None and (threshold is None or enable > threshold):
        raise RuleRefusedError(
            f"enable_threshold={enable} with threshold={threshold}: hysteresis needs "
            "enable_threshold <= threshold; change both together"
        )
