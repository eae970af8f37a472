"""`specswitch doctor`: which worker given flags take and why, and what this machine lacks to run them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specswitch.serving import machine, port, preflight
from specswitch.serving.environment import SYNTHETIC_PREFIXES
from specswitch.serving.errors import PreflightError
from specswitch.serving.flags import ServerFlags, parse_flags, rule_of
from specswitch.serving.gpus import list_gpus
from specswitch.serving.path_rules import SPEC_V2_ENV


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer. `supported`: the flags work with Specswitch; `missing`: what the machine lacks for them.

    `not_checked`: what the flags left out, so that nothing can be said about it; empty when all was looked at.
    """

    sglang_version: str | None
    tested_version: str | None
    path: str
    worker_class: str
    stock_class: str
    overlap: bool
    spec_v2_env: str | None
    num_steps: int | None
    topk: int | None
    num_draft_tokens: int | None
    rule: dict[str, Any]
    reasons: tuple[str, ...]
    supported: bool
    problems: tuple[str, ...]
    device: str
    gpus: tuple[str, ...]
    missing: tuple[machine.Missing, ...]
    not_checked: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether a server with these flags can be expected to run here."""
        return self.supported and not (self.problems or self.missing or self.not_checked)

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 something is wrong or missing, 2 no model path: `serve` refuses such flags with 2, too."""
        return 2 if self.not_checked else 0 if self.healthy else 1

    def to_dict(self) -> dict[str, Any]:
        """For JSON output."""
        return asdict(self) | {"healthy": self.healthy}

    def to_text(self) -> str:
        """For people."""
        lines = [
            f"SGLang {self.sglang_version or 'is not installed'} (tested: {self.tested_version})",
            f"Path {self.path}, worker class {self.worker_class}, device {self.device}",
            "Because:",
            *(f"  - {r}" for r in self.reasons),
        ]
        if self.problems:
            lines += ["Problems:", *(f"  - {p}" for p in self.problems)]
        if self.missing:
            lines += ["Missing on this machine:", *(f"  - {m.what}: {m.cure}" for m in self.missing)]
        if self.not_checked:
            lines += ["Not checked:", *(f"  - {n}" for n in self.not_checked)]
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.healthy:
            return "Ready to serve."
        if not self.not_checked:
            return "Not ready to serve."
        machine_is = "lacks something, see above" if self.missing else "has what it needs"
        return (
            f"Not ready to serve: a model path is missing. This machine {machine_is}.\n"
            "Write the server's flags behind a double dash: specswitch doctor -- --model-path DIR ..."
        )


def diagnose(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Diagnosis:
    """Examine server flags.

    Args:
        argv: the flags, without the program; none at all: look at the machine only.
        env: defaults to this process's environment.

    Raises:
        PreflightError: the engine does not know a flag, or a value is impossible.
    """
    env = os.environ if env is None else env
    flags = parse_flags(argv or ["--device", "cuda" if list_gpus() else "cpu"])
    rule = rule_of(flags)
    port.check_number(flags.port)
    decision, found = preflight.examine(flags, env)
    problems = [p for p in found if p != preflight.NO_MODEL_PATH] if argv else []
    problems += _port_problems(flags) if argv else []
    problems += [
        f"{name} is set: it makes a server invent results; unset it"
        for name in sorted(env)
        if name.startswith(SYNTHETIC_PREFIXES)
    ]
    missing = machine.missing_packages() + machine.missing_entry_points() + machine.missing_for_device(flags)
    version, tested = machine.engine_version(), machine.tested_engine_version()
    return Diagnosis(
        sglang_version=version,
        tested_version=tested,
        path=decision.path,
        worker_class=decision.worker_class,
        stock_class=decision.stock_class,
        overlap=decision.overlap,
        spec_v2_env=env.get(SPEC_V2_ENV),
        num_steps=decision.num_steps,
        topk=decision.topk,
        num_draft_tokens=decision.num_draft_tokens,
        rule=rule.model_dump(mode="json"),
        reasons=decision.reasons,
        supported=decision.supported and version == tested,
        problems=tuple(problems),
        device=machine.device_of(flags),
        gpus=tuple(f"{g.index}: {g.name}, {g.free_mib} of {g.total_mib} MiB free" for g in list_gpus()),
        missing=tuple(missing),
        not_checked=_not_checked(flags),
    )


def _not_checked(flags: ServerFlags) -> tuple[str, ...]:
    """What could not be looked at. Without a model nothing is known of its draft, either."""
    if flags.model_path is not None:
        return ()
    left = [f"the model, and whether a draft fits it: {preflight.NO_MODEL_PATH}"]
    if flags.speculative_algorithm is None:
        left.append("speculation: no --speculative-algorithm was given, so the path above is the plain one")
    return tuple(left)


def _port_problems(flags: ServerFlags) -> list[str]:
    """What `serve` would say of the port, if it cannot listen there."""
    try:
        port.require_free(flags.host, flags.port)
    except PreflightError as problem:
        return [str(problem)]
    return []
