"""The one list of SGLang internals that Specswitch touches: name, parameters we rely on, tested version.

`check()` compares the list with the installed engine before anything is hooked, so that another engine
version is refused with the name that changed instead of failing in the middle of a step.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import pkgutil
from dataclasses import dataclass

TESTED_VERSION = "0.5.12.post1"


@dataclass(frozen=True, slots=True)
class Name:
    """One engine name: dotted path and the parameter names that we pass or receive, in order."""

    path: str
    parameters: tuple[str, ...] | None = None


SCHED = "sglang.srt.managers.scheduler.Scheduler"
REQ = "sglang.srt.managers.schedule_batch.Req"
BATCH = "sglang.srt.managers.schedule_batch"

HOOKED = {
    "create_worker": Name(
        "sglang.srt.speculative.spec_info.SpeculativeAlgorithm.create_worker", ("self", "server_args")
    ),
    "add_cli_args": Name("sglang.srt.server_args.ServerArgs.add_cli_args", ("parser",)),
    "from_cli_args": Name("sglang.srt.server_args.ServerArgs.from_cli_args", ("args",)),
    "get_internal_state": Name(f"{SCHED}.get_internal_state", ("self", "recv_req")),
    "set_internal_state": Name(f"{SCHED}.set_internal_state", ("self", "recv_req")),
    "process_decode": Name(f"{SCHED}.process_batch_result_decode", ("self", "batch", "result")),
    "resolve_overlap": Name(f"{SCHED}._resolve_spec_overlap_tokens", ("self", "result", "batch")),
    "spec_metrics": Name(f"{SCHED}.update_spec_metrics", ("self", "bs", "num_correct_drafts")),
    "decode_stats": Name(
        f"{SCHED}.report_decode_stats", ("self", "can_run_cuda_graph", "running_batch", "num_correct_drafts")
    ),
    "on_idle": Name(f"{SCHED}.on_idle", ("self",)),
    "commit_len": Name(f"{REQ}._cache_commit_len", ("self",)),
    "future_store": Name(
        "sglang.srt.managers.overlap_utils.FutureMap.store_to_map_for_new_batch",
        ("self", "future_indices", "draft_input"),
    ),
    "future_resolve": Name(
        "sglang.srt.managers.overlap_utils.FutureMap.resolve_future", ("self", "model_worker_batch")
    ),
    "request_metrics": Name(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager._calculate_spec_decoding_metrics",
        ("self", "meta_info", "recv_obj", "i"),
    ),
}

USED = (
    Name("sglang.srt.mem_cache.common.alloc_for_decode", ("batch", "token_per_req")),
    Name(f"{BATCH}.ScheduleBatch.get_model_worker_batch"),
    Name(f"{BATCH}.ModelWorkerBatch"),
    Name("sglang.srt.managers.utils.GenerationBatchResult"),
    Name("sglang.srt.model_executor.forward_batch_info.ForwardBatch.init_new", ("batch", "model_runner")),
    Name("sglang.srt.speculative.eagle_info.EagleDraftInput.hidden_size_for", ("worker",)),
    Name("sglang.srt.speculative.eagle_info.EagleDraftExtendInput.hidden_size_for", ("worker",)),
    Name("sglang.srt.speculative.eagle_worker.EAGLEWorker.forward_batch_generation", ("self", "batch")),
    Name("sglang.srt.speculative.eagle_worker.EAGLEWorker._draft_preprocess_idle", ("self", "batch")),
    Name(
        "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.forward_batch_generation",
        ("self", "model_worker_batch"),
    ),
    Name("sglang.srt.utils.common.fast_topk"),
    Name("sglang.srt.plugins.hook_registry.HookRegistry.register"),
)


class SeamError(RuntimeError):
    """The installed engine is not the one that Specswitch was built against."""


def installed_version() -> str:
    """Version of the installed sglang distribution."""
    return importlib.metadata.version("sglang")


def parameters_of(obj: object) -> tuple[str, ...]:
    """Parameter names of an engine callable, seen through hooks already applied."""
    return tuple(inspect.signature(inspect.unwrap(obj)).parameters)  # type: ignore[arg-type]


def differences() -> list[str]:
    """What the installed engine lacks or has otherwise than listed; empty if it fits."""
    found = []
    if installed_version() != TESTED_VERSION:
        found.append(f"sglang {installed_version()} is installed, {TESTED_VERSION} is needed")
    for name in [*HOOKED.values(), *USED]:
        try:
            obj = pkgutil.resolve_name(name.path)
        except (ImportError, AttributeError) as e:
            found.append(f"{name.path} does not exist: {e}")
            continue
        if name.parameters is None:
            continue
        actual = parameters_of(obj)
        wanted = tuple(p for p in name.parameters if p != "self")
        if tuple(p for p in actual if p not in ("self", "cls"))[: len(wanted)] != wanted:
            found.append(f"{name.path}{actual}: expected parameters {name.parameters}")
    return found


def check() -> None:
    """Refuse an engine that does not fit.

    Raises:
        SeamError: lists every difference.
    """
    found = differences()
    if found:
        raise SeamError("this SGLang does not fit Specswitch: " + "; ".join(found))
