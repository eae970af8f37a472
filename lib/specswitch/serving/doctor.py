"""`specswitch doctor`: which worker given flags take and why, and what this machine lacks to run them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specswitch.serving import machine, preflight
from specswitch.serving.environment import SYNTHETIC_PREFIXES
from specswitch.serving.flags import parse_flags, rule_of
from specswitch.serving.gpus import list_gpus
from specswitch.serving.path_rules import SPEC_V2_ENV


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer. `supported`: the flags work with Specswitch; `missing`: what the machine lacks for them.

    `models_checked`: the flags named a model, and it and its draft were looked at.
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
    models_checked: bool

    @property
    def healthy(self) -> bool:
        """Whether a server with these flags can be expected to run here."""
        return self.supported and not self.problems and not self.missing

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
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.healthy:
            return "Not ready to serve."
        if self.models_checked:
            return "Ready to serve."
        return "This machine is ready. No model was checked: give the server's flags behind --, --model-path first."


def diagnose(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Diagnosis:
    """Examine server flags.

    Args:
        argv: the flags, without the program; none at all: look at the machine only.
        env: defaults to this process's environment.

    Raises:
        FlagError: the engine does not know a flag, or a value is impossible.
    """
    env = os.environ if env is None else env
    flags = parse_flags(argv or ["--device", "cuda" if list_gpus() else "cpu"])
    rule = rule_of(flags)
    decision, found = preflight.examine(flags, env)
    problems = found if argv else []
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
        models_checked=flags.model_path is not None,
    )
