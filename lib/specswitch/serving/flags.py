"""SGLang server flags as a person writes them, parsed into the few facts that decide how a server runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError

from specswitch.config import Rule
from specswitch.explain import explain
from specswitch.serving.batch_table import FLAG, read_batch_table
from specswitch.serving.engine_options import build_parser
from specswitch.serving.errors import FlagError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """What the flags say; None where a flag was not given and the engine would choose.

    Field names are the engine's own argument names. `argv` are the flags themselves.
    """

    argv: tuple[str, ...]
    model_path: str | None = None
    tokenizer_path: str | None = None
    skip_tokenizer_init: bool = False
    load_format: str | None = None
    speculative_draft_load_format: str | None = None
    context_length: int | None = None
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    api_key: str | None = None
    device: str | None = None
    dtype: str | None = None
    attention_backend: str | None = None
    sampling_backend: str | None = None
    page_size: int | None = None
    max_running_requests: int | None = None
    max_total_tokens: int | None = None
    cuda_graph_max_bs: int | None = None
    disable_cuda_graph: bool = False
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    enable_dp_attention: bool = False
    enable_two_batch_overlap: bool = False
    sleep_on_idle: bool = False
    disable_overlap_schedule: bool = False
    skip_server_warmup: bool = False
    speculative_algorithm: str | None = None
    speculative_draft_model_path: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    speculative_adaptive: bool = False
    enable_multi_layer_eagle: bool = False
    speculative_disable_batch_threshold: int | None = None
    speculative_enable_batch_threshold: int | None = None
    speculative_switch_dwell: int = 1
    speculative_draft_sync: str | None = None
    speculative_lazy_window: int | None = None
    speculative_batch_table: str | None = None
    specswitch_check: bool = False

    @property
    def dynamic(self) -> bool:
        """Whether a rule was given, so that the dynamic worker runs instead of the stock one."""
        return (
            self.speculative_disable_batch_threshold is not None or self.speculative_batch_table is not None
        )


def parse_flags(argv: Sequence[str]) -> ServerFlags:
    """Parse server flags, without the program in front.

    Raises:
        FlagError: unknown flag, impossible value, or `--config`, whose file is not read here.
    """
    given: dict[str, Any] = vars(build_parser().parse_args(list(argv)))
    if given.get("config") is not None:
        raise FlagError(f"--config {given['config']}: write its settings as flags, the file is not read here")
    known = {f.name for f in fields(ServerFlags)} - {"argv"}
    return ServerFlags(argv=tuple(argv), **{k: v for k, v in given.items() if k in known})


def rule_of(flags: ServerFlags) -> Rule:
    """The switching rule in the flags, checked. Raises FlagError for an impossible one."""
    threshold, table = flags.speculative_disable_batch_threshold, flags.speculative_batch_table
    if threshold is not None and table is not None:
        raise FlagError(
            f"threshold {threshold} together with --speculative-batch-table {table}: each says alone where to "
            "speculate, leave one of them out"
        )
    return checked_rule(
        threshold=flags.speculative_disable_batch_threshold,
        enable_threshold=flags.speculative_enable_batch_threshold,
        dwell=flags.speculative_switch_dwell,
        sync=flags.speculative_draft_sync,
        lazy_window=flags.speculative_lazy_window,
    )


def ranges_of(flags: ServerFlags) -> tuple[tuple[int, int], ...] | None:
    """The batch ranges in which to speculate, None without a batch table. Raises FlagError for an impossible one."""
    table = flags.speculative_batch_table
    if table is None:
        return None
    if flags.speculative_disable_batch_threshold is not None:
        raise FlagError(
            f"--speculative-disable-batch-threshold {flags.speculative_disable_batch_threshold} and {FLAG} "
            f"{table!r}: the table takes the threshold's place, give one of the two"
        )
    return read_batch_table(table)


def checked_rule(**values: Any) -> Rule:
    """A rule from its fields.

    Raises:
        FlagError: an impossible rule, e.g. enable threshold above the threshold.
    """
    try:
        return Rule.model_validate(values)
    except ValidationError as e:
        raise FlagError(f"switching rule: {explain(e)}") from e
