"""From a `ServerConfig` to the server's command line. Equal in every arm, speculation apart."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from specswitch.config import Rule, ServerConfig

SECRET_FLAGS = ("--api-key", "--admin-api-key", "--ssl-keyfile-password")
# Left alone, the engine would fill the host's memory with KV cache (and touch every page of it).
CPU_TOTAL_TOKENS = 32768
_CPU_DEFAULTS = (
    ("--attention-backend", "torch_native"),
    ("--sampling-backend", "pytorch"),
    ("--max-total-tokens", str(CPU_TOTAL_TOKENS)),
)


def build_argv(cfg: ServerConfig, port: int) -> list[str]:
    """The whole command, Python included, for `cfg` listening on `port`."""
    return [*server_program(), *server_flags(cfg, port)]


def server_program() -> list[str]:
    """What stands before the flags: this interpreter running the engine's launcher."""
    return [sys.executable, "-m", "sglang.launch_server"]


def server_flags(cfg: ServerConfig, port: int) -> list[str]:
    """The server's flags for `cfg`, in a fixed order; the caller's `extra_args` come last."""
    return [
        *_model_flags(cfg),
        *("--host", cfg.host, "--port", str(port), "--skip-server-warmup"),
        *_capacity_flags(cfg),
        *_device_flags(cfg),
        *_path_flags(cfg),
        *cfg.extra_args,
    ]


def rule_flags(rule: Rule, check: bool = False) -> list[str]:
    """Our own flags for a switching rule. Without a threshold there are none: the stock worker runs."""
    flags = []
    if rule.threshold is not None:
        flags += ["--speculative-disable-batch-threshold", str(rule.threshold)]
        if rule.enable_threshold is not None:
            flags += ["--speculative-enable-batch-threshold", str(rule.enable_threshold)]
        flags += ["--speculative-switch-dwell", str(rule.dwell)]
        if rule.sync is not None:
            flags += ["--speculative-draft-sync", rule.sync]
        if rule.lazy_window is not None:
            flags += ["--speculative-lazy-window", str(rule.lazy_window)]
    if check:
        flags += ["--specswitch-check"]
    return flags


def cpu_flags(flags: Sequence[str]) -> list[str]:
    """What the CPU reference platform needs on top of `flags`: backends, and no spinning while idle."""
    added = [part for name, value in _CPU_DEFAULTS if not _has(flags, name) for part in (name, value)]
    return added + ([] if _has(flags, "--sleep-on-idle") else ["--sleep-on-idle"])


def redact(argv: Sequence[str]) -> list[str]:
    """The same command with the values of secret flags masked, for logs and provenance."""
    shown, hide = [], False
    for part in argv:
        name, equals, _ = part.partition("=")
        if hide:
            shown.append("***")
        elif equals and name in SECRET_FLAGS:
            shown.append(f"{name}=***")
        else:
            shown.append(part)
        hide = not hide and part in SECRET_FLAGS
    return shown


def secrets_in(argv: Sequence[str]) -> list[str]:
    """The values that `redact` masks."""
    pairs = zip(argv, redact(argv), strict=True)
    return [given.partition("=")[2] or given for given, shown in pairs if given != shown]


def _model_flags(cfg: ServerConfig) -> list[str]:
    flags = ["--model-path", str(Path(cfg.model).resolve()), "--dtype", cfg.dtype]
    if cfg.load_format == "dummy":
        flags += ["--load-format", "dummy", "--skip-tokenizer-init"]
    if cfg.context_length is not None:
        flags += ["--context-length", str(cfg.context_length)]
    return [*flags, "--random-seed", str(cfg.seed)]


def _capacity_flags(cfg: ServerConfig) -> list[str]:
    flags = ["--max-running-requests", str(cfg.max_running_requests), "--page-size", str(cfg.page_size)]
    if cfg.max_total_tokens is not None:
        flags += ["--max-total-tokens", str(cfg.max_total_tokens)]
    if cfg.mem_fraction_static is not None:
        flags += ["--mem-fraction-static", str(cfg.mem_fraction_static)]
    return flags


def _device_flags(cfg: ServerConfig) -> list[str]:
    flags = ["--device", cfg.device, "--tensor-parallel-size", str(cfg.tp)]
    if cfg.attention_backend is not None:
        flags += ["--attention-backend", cfg.attention_backend]
    if cfg.device == "cpu":
        return flags + cpu_flags([*flags, *_capacity_flags(cfg), *cfg.extra_args])
    return [*flags, "--cuda-graph-max-bs", str(cfg.max_running_requests)]


def _path_flags(cfg: ServerConfig) -> list[str]:
    flags = ["--disable-overlap-schedule"] if cfg.path == "v1" or not cfg.overlap else []
    if cfg.path == "none":
        return flags
    flags += ["--speculative-algorithm", "EAGLE3"]
    flags += ["--speculative-draft-model-path", str(Path(cfg.draft or "").resolve())]
    flags += ["--speculative-num-steps", str(cfg.num_steps), "--speculative-eagle-topk", str(cfg.topk)]
    flags += ["--speculative-num-draft-tokens", str(cfg.num_draft_tokens)]
    return flags + rule_flags(cfg.rule, cfg.check)


def _has(flags: Sequence[str], name: str) -> bool:
    return any(f == name or f.startswith(f"{name}=") for f in flags)
