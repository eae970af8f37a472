"""From what a user asks for to a checked command, environment and expectation, with nothing started yet."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specswitch.config import ServerConfig
from specswitch.serving import preflight
from specswitch.serving.argv import build_argv, cpu_flags, server_flags, server_program
from specswitch.serving.environment import ChildEnvironment, child_environment, refuse_synthetic
from specswitch.serving.flags import parse_flags, ranges_of, rule_of
from specswitch.serving.identity import Expected
from specswitch.serving.path_rules import SPEC_V2_ENV, spec_v2_enabled
from specswitch.serving.port import url_host

API_KEY_ENV = "SPECSWITCH_API_KEY"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything needed to start a server, checked. `argv` is the whole command."""

    argv: tuple[str, ...]
    environment: ChildEnvironment
    host: str
    port: int
    expected: Expected
    ready_timeout_s: float
    cuda: bool
    api_key: str | None = None

    @property
    def url(self) -> str:
        """Where a client on this machine finds the server."""
        return f"http://{url_host(self.host)}:{self.port}"


def spec_from_config(cfg: ServerConfig, log_path: Path, steps_dir: Path | None = None) -> LaunchSpec:
    """Check a configuration and turn it into a command, an environment and an expectation.

    An API key comes from SPECSWITCH_API_KEY: a secret has no place in a configuration, which is stored.

    Raises:
        PreflightError: names the value and the cure.
    """
    nonce = secrets.token_hex(16)
    key = os.environ.get(API_KEY_ENV) or None
    environment = child_environment(
        spec_v2=cfg.path == "v2",
        cpu=cfg.device == "cpu",
        nonce=nonce,
        synthetic=cfg.synthetic,
        extra=cfg.env,
        steps_dir=None if steps_dir is None else steps_dir.resolve(),
    )
    preflight.check_extra_args(cfg.extra_args, server_flags(cfg.model_copy(update={"extra_args": ()}), 1))
    flags = parse_flags(server_flags(cfg, 1))  # the port is chosen last
    decision = preflight.check(flags, environment.values)
    preflight.check_path(decision, cfg.path, cfg.rule.threshold)
    preflight.check_output(log_path.parent, *([] if steps_dir is None else [steps_dir]))
    port = preflight.choose_port(cfg.host, cfg.port)
    return LaunchSpec(
        argv=(*build_argv(cfg, port), *(("--api-key", key) if key else ())),
        environment=environment,
        host=cfg.host,
        port=port,
        expected=Expected(nonce, decision, cfg.rule, cfg.tp),
        ready_timeout_s=cfg.ready_timeout_s,
        cuda=cfg.device == "cuda",
        api_key=key,
    )


def spec_from_flags(
    flags_argv: Sequence[str],
    *,
    shell: Mapping[str, str] | None = None,
    synthetic: bool = False,
    ready_timeout_s: float = 600.0,
) -> LaunchSpec:
    """The same for server flags as a person writes them in a shell, where the engine's variables are meant.

    Args:
        flags_argv: flags without the program. What the CPU platform needs is added.
        shell: the environment, by default this process's; its SGLANG_* variables are passed on.
        synthetic: label of the run; allows simulate and test variables.
        ready_timeout_s: seconds to wait for readiness.

    Raises:
        PreflightError: names the value and the cure.
    """
    shell = dict(os.environ if shell is None else shell)
    flags = parse_flags(flags_argv)
    cpu = flags.device == "cpu"
    added = cpu_flags(flags_argv) if cpu else []
    added += [] if flags.skip_server_warmup else ["--skip-server-warmup"]
    flags = parse_flags([*flags_argv, *added])
    nonce = secrets.token_hex(16)
    meant = {k: v for k, v in shell.items() if k.startswith("SGLANG_") and k != SPEC_V2_ENV}
    refuse_synthetic(meant, {}, synthetic)
    environment = child_environment(
        spec_v2=spec_v2_enabled(shell.get(SPEC_V2_ENV))[0],
        cpu=cpu,
        nonce=nonce,
        synthetic=synthetic,
        extra=meant,
        inherited={k: v for k, v in shell.items() if k not in meant},
    )
    decision = preflight.check(flags, environment.values)
    return LaunchSpec(
        argv=(*server_program(), *flags.argv),
        environment=environment,
        host=flags.host,
        port=preflight.choose_port(flags.host, flags.port),
        expected=Expected(nonce, decision, rule_of(flags), flags.tensor_parallel_size, ranges_of(flags)),
        ready_timeout_s=ready_timeout_s,
        cuda=not cpu,
        api_key=flags.api_key,
    )
