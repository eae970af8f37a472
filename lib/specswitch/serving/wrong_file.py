"""The mistake that wastes weeks, replayed: a change to `eagle_worker_v2.py` while the server runs `EAGLEWorker`.

Somebody's change is made by a plugin of SGLang in a folder of its own; the installed engine stays as it is. One and
the same command is started twice, with one environment variable different.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specswitch.serving import preflight
from specswitch.serving.code_path import environment, foretell, generated, in_package, written_spec
from specswitch.serving.errors import IdentityError, PreflightError
from specswitch.serving.identity import check_identity
from specswitch.serving.launch import start
from specswitch.serving.path_rules import PathDecision

NAME = "somebodys_change"
SPEC_V2 = ("0", None)  # values of SGLANG_ENABLE_SPEC_V2, None for unset
LOADED, RAN = "changed eagle_worker_v2.py: loaded", "changed eagle_worker_v2.py: runs"
_CHANGED = "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.forward_batch_generation"
_PLUGIN = f'''\
from sglang.srt.plugins.hook_registry import HookRegistry, HookType


def changed(original, *args, **kwargs):
    print("{RAN}", flush=True)
    return original(*args, **kwargs)


def register():
    HookRegistry.register("{_CHANGED}", changed, HookType.AROUND)
    print("{LOADED}", flush=True)
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """One start. `loaded`: processes that hold the change; `ran`: how often it was executed.

    `refused_before`, `refused_running`: what the check of the flags and the proof of the running server say to
    somebody who wants v2; None where they agree.
    """

    spec_v2: str | None
    path: str
    worker_class: str
    stock_file: str | None
    tokens: int
    loaded: int
    ran: int
    refused_before: str | None
    refused_running: str | None


def write_change(folder: Path) -> dict[str, str]:
    """Put the change into `folder`; returns the variables that make a server load it beside Specswitch."""
    (folder / f"{NAME}.py").write_text(_PLUGIN, encoding="utf-8")
    about = folder / f"{NAME}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n", encoding="utf-8")
    entry = f"[sglang.srt.plugins]\n{NAME} = {NAME}:register\n"
    (about / "entry_points.txt").write_text(entry, encoding="utf-8")
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(folder), *([before] if before else [])])
    return {"PYTHONPATH": path, "SGLANG_PLUGINS": f"specswitch,{NAME}"}


def replay(
    argv: Sequence[str],
    shell: Mapping[str, str],
    folder: Path,
    ready_timeout_s: float = 300.0,
) -> list[Outcome]:
    """Start `argv` with the change twice: with SGLANG_ENABLE_SPEC_V2 as `SPEC_V2` says, one after the other.

    Args:
        argv: server flags that take v2 unless the variable says otherwise.
        shell: the environment otherwise.
        folder: an empty one, for the change and the logs.
        ready_timeout_s: seconds for each server to get ready.

    Raises:
        ValueError: the flags do not take v2 where the variable is unset. Else as `launch.launch`.
    """
    wanted = foretell(argv, environment(shell, None)).decision
    if wanted.path != "v2":
        raise ValueError(
            f"flags that take v2 are needed, these take {wanted.path}: {'; '.join(wanted.reasons)}"
        )
    changed = {**shell, **write_change(folder)}
    return [
        _start(argv, environment(changed, value), folder / f"server-{i}.log", wanted, ready_timeout_s)
        for i, value in enumerate(SPEC_V2)
    ]


def _start(
    argv: Sequence[str], shell: dict[str, str], log: Path, wanted: PathDecision, ready_timeout_s: float
) -> Outcome:
    spec = written_spec(argv, shell, ready_timeout_s)
    with start(spec, log) as server:
        state = generated(server)
        refused_running = None
        try:
            check_identity(server.info(), dataclasses.replace(spec.expected, decision=wanted), server.url)
        except IdentityError as refusal:
            refused_running = f"{type(refusal).__name__}: {refusal}"
    said = log.read_text(encoding="utf-8", errors="replace")
    return Outcome(
        spec_v2=state["spec_v2_env"],
        path=state["path"],
        worker_class=state["worker_class"],
        stock_file=in_package(state["stock_file"]),
        tokens=state["plain_tokens"] + state["speculative_tokens"],
        loaded=said.count(LOADED),
        ran=said.count(RAN),
        refused_before=_refusal_before(spec.expected.decision, wanted),
        refused_running=refused_running,
    )


def _refusal_before(decision: PathDecision, wanted: PathDecision) -> str | None:
    try:
        preflight.check_path(decision, wanted.path, None)
    except PreflightError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return None
