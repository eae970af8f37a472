"""Everything that can be known wrong in under two seconds, before a server is started."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specswitch.serving import engine_options, model_checks, model_files, path_rules, port
from specswitch.serving.argv import SECRET_FLAGS
from specswitch.serving.errors import FlagError, PreflightError
from specswitch.serving.flags import ServerFlags, ranges_of, rule_of
from specswitch.serving.gpus import count_gpus

NO_MODEL_PATH = "--model-path is missing: give a local model directory"


def check(flags: ServerFlags, env: Mapping[str, str]) -> path_rules.PathDecision:
    """Check flags, models, rule and path; returns what the engine will run.

    Args:
        flags: the server's flags.
        env: the environment that the server will get.

    Raises:
        PreflightError: lists every problem found, each with its cure.
    """
    decision, found = examine(flags, env)
    found += _device_problems(flags)
    if found:
        raise PreflightError(found[0] if len(found) == 1 else "\n".join(f"- {p}" for p in found))
    return decision


def examine(flags: ServerFlags, env: Mapping[str, str]) -> tuple[path_rules.PathDecision, list[str]]:
    """The path decision, and every problem of models, sizes and path; the machine is not looked at.

    Raises FlagError for impossible flags.
    """
    rule_of(flags)
    problems: list[str] = []
    try:
        ranges_of(flags)
    except FlagError as e:
        problems.append(str(e))
    target = _config(flags.model_path, "model", problems)
    draft = _config(flags.speculative_draft_model_path, "draft", problems)
    decision = path_rules.decide(flags, env, _architecture(target), _architecture(draft))
    if flags.model_path is None:
        problems.append(NO_MODEL_PATH)
    elif target is not None:
        problems += model_checks.target_problems(flags, Path(flags.model_path), target)
    if decision.path in ("v1", "v2"):
        problems += model_checks.draft_problems(flags, target, draft)
    elif decision.path == "other":
        problems.append(f"{decision.worker_class} is not a worker that Specswitch knows: use EAGLE3")
    return decision, problems + list(decision.refused)


def check_path(decision: path_rules.PathDecision, path: str, threshold: int | None) -> None:
    """Make sure that the flags take the path that was asked for, and that it has a use for the threshold.

    Raises:
        PreflightError: says what the flags take instead, and why.
    """
    if decision.path != path:
        raise PreflightError(
            f"path={path!r} was asked, these flags take {decision.path!r}: {'; '.join(decision.reasons)}"
        )
    if path == "none" and threshold is not None:
        raise PreflightError(f"threshold={threshold} with path='none': there is nothing to switch")


def check_extra_args(extra_args: Sequence[str], built: Sequence[str]) -> None:
    """Refuse extra arguments that are unknown, override a setting, or choose path and rule.

    Args:
        extra_args: the caller's additional flags.
        built: the flags made from the configuration, without them.

    Raises:
        FlagError: names the flag.
    """
    secret = [a.partition("=")[0] for a in extra_args if a.partition("=")[0] in SECRET_FLAGS]
    if secret:
        raise FlagError(
            f"extra_args holds {secret[0]}, and extra_args are stored with the results: set an API key in the "
            "variable SPECSWITCH_API_KEY instead"
        )
    parser = engine_options.build_parser()
    ours, theirs = (set(vars(parser.parse_args(list(a)))) for a in (built, extra_args))
    for name in sorted(theirs):
        flag = f"--{name.replace('_', '-')}"
        if name in ours:
            raise FlagError(f"extra_args gives {flag} again: set the field of ServerConfig instead")
        if name.startswith(("speculative_disable", "speculative_enable", "speculative_switch")) or name in (
            "speculative_algorithm",
            "speculative_draft_model_path",
            "speculative_batch_table",
            "disable_overlap_schedule",
        ):
            raise FlagError(f"extra_args holds {flag}: set path, overlap and rule of ServerConfig instead")


def check_output(*directories: Path) -> None:
    """Make sure that each directory exists, can be written and is not on a full disk.

    Raises:
        PreflightError: names the directory.
    """
    for directory in directories:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=directory, prefix=".probe-") as f:
                f.write(b"\0" * 4096)
                f.flush()
        except OSError as e:
            raise PreflightError(
                f"cannot write to {str(directory)!r} ({e.strerror or e}): choose another output directory"
            ) from e


def choose_port(host: str, number: int | None) -> int:
    """The port that was asked for, if it is free, or a free one.

    Raises:
        PortBusyError: it is taken.
        PreflightError: the host is not this machine's.
    """
    if number is None:
        return port.free_port(host)
    port.require_free(host, number)
    return number


def _config(directory: str | None, what: str, problems: list[str]) -> dict[str, Any] | None:
    if directory is None:
        return None
    try:
        return model_files.read_config(Path(directory), what)
    except PreflightError as e:
        problems.append(str(e))
        return None


def _architecture(config: dict[str, Any] | None) -> str | None:
    return None if config is None else str(config["architectures"][0])


def _device_problems(flags: ServerFlags) -> list[str]:
    if flags.device == "cpu":
        return []
    gpus, tp = count_gpus(), flags.tensor_parallel_size
    if gpus == 0:
        return ["no NVIDIA GPU is visible: add --device cpu (device='cpu') for the CPU reference platform"]
    if gpus < tp:
        return [f"tensor parallel size {tp} needs as many GPUs, {gpus} are visible"]
    return []
