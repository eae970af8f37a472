"""The one list of SGLang internals that Specswitch touches: name, parameters we rely on, tested version.

`check()` compares the list with the installed engine before anything is hooked, so that another engine
version is refused with the name that changed instead of failing in the middle of a step.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import pkgutil
from dataclasses import dataclass

TESTED_VERSION = "0.5.12.post1"


@dataclass(frozen=True, slots=True)
class Name:
    """One engine name: dotted path, the parameters that we pass or receive, in order, the fields that we touch."""

    path: str
    parameters: tuple[str, ...] | None = None
    fields: tuple[str, ...] = ()


SCHED = "sglang.srt.managers.scheduler.Scheduler"
REQ = "sglang.srt.managers.schedule_batch.Req"
BATCH = "sglang.srt.managers.schedule_batch"
FORWARD = "sglang.srt.model_executor.forward_batch_info"
EAGLE = "sglang.srt.speculative.eagle_info"
MOE = "sglang.srt.layers.moe.utils"

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
    Name(f"{BATCH}.Req.check_finished", ("self", "new_accepted_len")),
    Name(f"{BATCH}.Req.finished", ("self",)),
    Name(f"{BATCH}.Req.update_reasoning_tokens", ("self", "token_id", "think_end_id")),
    Name(f"{BATCH}.FINISH_ABORT"),
    Name(
        f"{BATCH}.ModelWorkerBatch",
        fields=(
            "forward_mode",
            "input_ids",
            "req_pool_indices",
            "seq_lens",
            "out_cache_loc",
            "seq_lens_cpu",
            "seq_lens_sum",
            "orig_seq_lens",
            "return_logprob",
            "top_logprobs_nums",
            "token_ids_logprobs",
            "extend_num_tokens",
            "extend_seq_lens",
            "extend_prefix_lens",
            "extend_logprob_start_lens",
            "extend_input_logprob_token_ids",
            "multimodal_inputs",
            "lora_ids",
            "sampling_info",
            "spec_info",
            "capture_hidden_mode",
            "is_extend_in_batch",
            "reqs",
            "input_embeds",
            "replace_embeds",
            "global_num_tokens",
            "spec_algorithm",
        ),
    ),
    Name(f"{BATCH}.MultimodalInputs", fields=("mrope_position_delta",)),
    Name(f"{BATCH}.ScheduleBatch", fields=("prefix_lens", "extend_lens", "return_hidden_states")),
    Name(
        "sglang.srt.managers.utils.GenerationBatchResult",
        fields=(
            "logits_output",
            "next_token_ids",
            "num_correct_drafts",
            "num_correct_drafts_per_req_cpu",
            "accept_lens",
            "next_draft_input",
            "speculative_num_draft_tokens",
        ),
    ),
    Name("sglang.srt.managers.io_struct.SetInternalStateReqOutput", fields=("updated", "server_args")),
    Name(f"{SCHED}.is_fully_idle", ("self",)),
    Name(f"{FORWARD}.ForwardBatch.init_new", ("batch", "model_runner")),
    Name(
        f"{FORWARD}.ForwardBatch",
        fields=(
            "batch_size",
            "positions",
            "mrope_positions",
            "extend_prefix_lens_cpu",
            "extend_seq_lens_cpu",
            "req_to_token_pool",
            "token_to_kv_pool",
            "attn_backend",
        ),
    ),
    Name(
        "sglang.srt.mem_cache.memory_pool.MHATokenToKVPool.set_kv_buffer",
        ("self", "layer", "loc", "cache_k", "cache_v", "k_scale", "v_scale"),
    ),
    Name("sglang.srt.layers.radix_attention.RadixAttention"),
    Name(f"{FORWARD}.CaptureHiddenMode.FULL"),
    Name(f"{FORWARD}.CaptureHiddenMode.LAST"),
    Name(f"{FORWARD}.ForwardMode.EXTEND"),
    Name("sglang.srt.model_executor.model_runner.ModelRunner.forward", ("self", "forward_batch")),
    Name(
        "sglang.srt.model_executor.model_runner.ModelRunner._get_attention_backend",
        ("self", "init_new_workspace"),
    ),
    Name(
        "sglang.srt.model_executor.cuda_graph_runner.CudaGraphRunner.__init__",
        ("self", "model_runner", "attn_backend"),
    ),
    Name(
        f"{EAGLE}.EagleDraftInput",
        fields=(
            "topk_p",
            "topk_index",
            "hidden_states",
            "bonus_tokens",
            "capture_hidden_mode",
            "num_tokens_per_req",
            "num_tokens_for_logprob_per_req",
            "new_seq_lens",
            "verify_done",
            "future_indices",
        ),
    ),
    Name(f"{EAGLE}.EagleDraftInput.hidden_size_for", ("worker",)),
    Name(f"{EAGLE}.EagleDraftInput.dtype_for", ("worker",)),
    Name(f"{EAGLE}.EagleDraftInput.prepare_for_decode", ("self", "batch")),
    Name(f"{EAGLE}.EagleDraftExtendInput.hidden_size_for", ("worker",)),
    Name(f"{EAGLE}.EagleDraftExtendInput.dtype_for", ("worker",)),
    Name("sglang.srt.speculative.eagle_worker.EAGLEWorker.forward_batch_generation", ("self", "batch")),
    Name("sglang.srt.speculative.eagle_worker.EAGLEWorker._draft_preprocess_idle", ("self", "batch")),
    Name("sglang.srt.speculative.eagle_worker.EAGLEWorker.forward_target_extend", ("self", "batch")),
    Name(
        "sglang.srt.speculative.eagle_worker_v2.EAGLEWorkerV2.forward_batch_generation",
        ("self", "model_worker_batch"),
    ),
    Name("sglang.srt.speculative.spec_info.SpeculativeAlgorithm.is_eagle", ("self",)),
    Name(f"{MOE}.speculative_moe_backend_context", ()),
    Name(f"{MOE}.speculative_moe_a2a_backend_context", ()),
    Name("sglang.srt.distributed.get_tp_group", ()),
    Name("sglang.srt.utils.get_available_gpu_memory", ("device", "gpu_id")),
    Name("sglang.srt.utils.common.fast_topk", ("values", "topk", "dim")),
    Name("sglang.srt.plugins.hook_registry.HookRegistry.register", ("target", "hook", "hook_type")),
    Name("sglang.srt.plugins.hook_registry.HookRegistry.apply_hooks", ()),
    Name("sglang.srt.plugins.hook_registry.HookType.AROUND"),
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
        absent = set(name.fields) - {f.name for f in dataclasses.fields(obj)} if name.fields else set()
        if absent:
            found.append(f"{name.path} has no field {', '.join(sorted(absent))}")
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
