"""Where the numbers come from: an allow-list of what the manifest knows. What is not named here is not shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from specswitch.plots.theme import arm_order
from specswitch.report.html import Cell, Column, table
from specswitch.report.scrub import scrub
from specswitch.results import Run

# Label, keys on the way down the manifest.
FACTS = (
    ("Run", ("run_id",)),
    ("Started", ("started_at",)),
    ("Ended", ("ended_at",)),
    ("Specswitch", ("provenance", "specswitch")),
    ("Git commit", ("provenance", "git_commit")),
    ("Uncommitted changes", ("provenance", "git_dirty")),
    ("Device", ("provenance", "device")),
    ("Platform", ("provenance", "platform")),
    ("Python", ("provenance", "python")),
    ("Target model", ("models", "model", "id")),
    ("Target SHA-256", ("models", "model", "sha256")),
    ("Draft model", ("models", "draft", "id")),
    ("Draft SHA-256", ("models", "draft", "sha256")),
    ("Synthetic acceptance", ("synthetic",)),
    ("Schema version", ("schema_version",)),
)
SHOWN_VARIABLES = re.compile(r"(?:SGLANG|CUDA|OMP|MKL)_\w+|SPECSWITCH_CPU")
THRESHOLD_FLAG = "--speculative-disable-batch-threshold"
SECRET = re.compile(
    r"(?:^|[_-])(?:key|token|secret|passw(?:or)?d|credentials?|auth)(?:$|[_-])", re.IGNORECASE
)
HIDDEN = "(not shown)"


def provenance(run: Run) -> str:
    """A table of facts: versions, device, models, parameters, every server's command line."""
    rows = [(label, _in_words(_follow(run.manifest, keys))) for label, keys in FACTS]
    rows += [(f"Package {name}", _in_words(v)) for name, v in run.manifest["provenance"]["packages"].items()]
    rows += [(f"Workload {name}", _in_words(v)) for name, v in run.manifest["plan"]["workload"].items()]
    rows += [(f"Parameter {name}", _in_words(v)) for name, v in visible(run.manifest["parameters"]).items()]
    for server in run.manifest["servers"]:
        name = server.get("name") or "server"
        rows.append((f"Server {name}", command_line(server.get("argv") or [])))
        rule = rules_measured(run, server)
        if rule:
            rows.append((f"Rule of {name}", rule))
        variables = environment(server.get("env") or {})
        if variables:
            rows.append((f"Variables of {name}", " ".join(f"{k}={v}" for k, v in variables.items())))
    for again in run.manifest["resumed"]:
        rows.append(("Resumed", f"{again.get('at')}, git commit {again.get('git_commit')}"))
    cells = [[Cell(label), Cell(scrub(value), kind="wrap")] for label, value in rows]
    return table([Column("What"), Column("Value")], cells, "provenance")


def rules_measured(run: Run, server: Mapping[str, Any]) -> str:
    """Of a server with a switching rule: that it was set per point, and the arms measured; "" of any other.

    Such a server serves every arm with a rule on its path, and starts with a threshold that none may have.
    """
    if THRESHOLD_FLAG not in map(str, server.get("argv") or []):
        return ""
    path = (server.get("identity") or {}).get("path")
    ruled = [p for p in run.manifest["points"] if p["threshold"] is not None and path in (None, p["path"])]
    arms = {str(p["label"]): p["threshold"] for p in ruled}
    told = ", ".join(f"{label} (threshold {arms[label]})" for label in sorted(arms, key=arm_order))
    only_first = "the threshold on the command line is only what the server starts with"
    return f"set before each point ({only_first}); measured: {told}"


def visible(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries without those whose name tells of a secret."""
    return {k: v for k, v in values.items() if not _secret(k)}


def environment(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of an environment that a report may show: by name, and never a secret."""
    return {k: v for k, v in sorted(variables.items()) if SHOWN_VARIABLES.fullmatch(k) and not _secret(k)}


def command_line(argv: Iterable[str]) -> str:
    """A command line as one would type it, the values of secret flags hidden, paths cut."""
    shown, hide_next = [], False
    for word in map(str, argv):
        flag, equals, _ = word.partition("=")
        if hide_next and not word.startswith("--"):
            shown.append(HIDDEN)
        elif word.startswith("--") and _secret(flag) and equals:
            shown.append(f"{flag}={HIDDEN}")
        else:
            shown.append(shlex.quote(scrub(word)) if " " in word else scrub(word))
        hide_next = word.startswith("--") and not equals and _secret(flag)
    return " ".join(shown)


def _secret(name: str) -> bool:
    return SECRET.search(name) is not None


def _follow(data: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def _in_words(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {_in_words(v)}" for k, v in value.items())
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\+00:00$", r"\1 \2 UTC", str(value))
