"""Putting the CPU ops in place of the engine's CUDA ones, and proving that they are there.

`PATCHES` is the whole list of what is replaced. Each name is replaced where it is defined and in every engine
module that has already bound it by `from x import name`; names that the engine binds only under CUDA are set in
the modules that use them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS

from specswitch.engine.cpu import (
    bootstrap,
    collectives,
    drafting,
    grammar,
    kv_locs,
    page_alloc,
    positions,
    renorm,
    simulate,
    tree,
    verify_greedy,
    verify_sampling,
)
from specswitch.engine.cpu.attention import CpuAttentionBackend

BACKEND_NAME = "torch_native"

_SPEC = "sglang.srt.speculative"
_UTILS, _INFO, _INFO_V2 = f"{_SPEC}.spec_utils", f"{_SPEC}.eagle_info", f"{_SPEC}.eagle_info_v2"
_ALLOC = "sglang.srt.mem_cache.allocator"

# (module, dotted name in it) -> ours
PATCHES: dict[tuple[str, str], Any] = {
    (f"{_SPEC}.eagle_utils", "sgl_build_tree_kernel_efficient"): tree.build_tree_kernel_efficient,
    (f"{_SPEC}.eagle_utils", "verify_tree_greedy_func"): verify_greedy.verify_tree_greedy_func,
    (_UTILS, "assign_req_to_token_pool_func"): kv_locs.assign_req_to_token_pool_func,
    (_UTILS, "assign_draft_cache_locs"): kv_locs.assign_draft_cache_locs,
    (_UTILS, "create_extend_after_decode_spec_info"): kv_locs.create_extend_after_decode_spec_info,
    (_UTILS, "align_evict_mask_to_page_size"): kv_locs.align_evict_mask_to_page_size,
    (_UTILS, "generate_simulated_accept_index"): simulate.generate_simulated_accept_index,
    (_UTILS, "TREE_SPEC_KERNEL_AVAILABLE"): True,
    (_INFO_V2, "assign_extend_cache_locs_func"): kv_locs.assign_extend_cache_locs_func,
    (_INFO_V2, "assign_draft_cache_locs_page_size_1"): kv_locs.assign_draft_cache_locs_page_size_1,
    (_INFO_V2, "fill_bonus_tokens"): kv_locs.fill_bonus_tokens,
    (f"{_SPEC}.draft_utils", "DraftBackendFactory.create_decode_backend"): drafting.create_decode_backend,
    (
        f"{_SPEC}.draft_utils",
        "DraftBackendFactory.create_draft_extend_backend",
    ): drafting.create_draft_extend_backend,
    (
        "sglang.srt.distributed.device_communicators.pynccl",
        "NCCLLibrary",
    ): collectives.NcclUnavailable,
    (_ALLOC, "alloc_extend_kernel"): page_alloc.alloc_extend_kernel,
    (_ALLOC, "alloc_decode_kernel"): page_alloc.alloc_decode_kernel,
    (
        "sglang.srt.model_executor.forward_batch_info",
        "compute_position_torch",
    ): positions.compute_position_torch,
    (
        "sglang.srt.constrained.xgrammar_backend",
        "XGrammarGrammar.apply_vocab_mask",
    ): grammar.apply_vocab_mask,
} | {
    (module, op.__name__): op
    for module in (_INFO, _INFO_V2)
    for op in (
        renorm.top_k_renorm_prob,
        renorm.top_p_renorm_prob,
        verify_sampling.tree_speculative_sampling_target_only,
    )
}


def install_all() -> None:
    """Replace everything in `PATCHES`, register the attention backend, verify. Idempotent.

    Raises RuntimeError where CUDA is visible, where the early entry did not run, or naming what is not ours
    after the fact; AttributeError or ModuleNotFoundError if the engine no longer has a module or class we patch.
    """
    if torch.cuda.is_available():
        raise RuntimeError(
            "SPECSWITCH_CPU=1 but CUDA is visible: hide it with CUDA_VISIBLE_DEVICES='' as well"
        )
    if not bootstrap.active():
        raise RuntimeError(
            "specswitch.engine.cpu.bootstrap.activate did not run before the engine was imported: is the package"
            " installed with its entry points, and does SGLANG_PLUGINS, if set, name specswitch?"
        )
    for (module, name), ours in PATCHES.items():
        holder, attribute = _holder(module, name)
        original = getattr(holder, attribute, None)
        setattr(holder, attribute, ours)
        if original is None or original is ours:
            continue
        for other in _modules_binding(attribute):
            if getattr(other, attribute) is original:
                setattr(other, attribute, ours)
    ATTENTION_BACKENDS[BACKEND_NAME] = CpuAttentionBackend
    left = missing()
    if left:
        raise RuntimeError(f"CPU platform incomplete, not ours: {', '.join(left)}")


def missing() -> list[str]:
    """Dotted names that ought to be ours and are not; empty if the platform is complete."""
    wrong = set()
    for (module, name), ours in PATCHES.items():
        holder, attribute = _holder(module, name)
        if getattr(holder, attribute, None) is not ours:
            wrong.add(f"{module}.{name}")
        if holder is sys.modules[module]:
            wrong |= {
                f"{other.__name__}.{attribute}"
                for other in _modules_binding(attribute)
                if other.__name__.startswith(_SPEC + ".eagle") and getattr(other, attribute) is not ours
            }
    if ATTENTION_BACKENDS.get(BACKEND_NAME) is not CpuAttentionBackend:
        wrong.add(f"attention backend {BACKEND_NAME}")
    return sorted(wrong)


def _holder(module: str, name: str) -> tuple[Any, str]:
    """Object that carries the last part of `name`, and that part."""
    holder: Any = importlib.import_module(module)
    *classes, attribute = name.split(".")
    for part in classes:
        holder = getattr(holder, part)
    return holder, attribute


def _modules_binding(attribute: str) -> Iterator[Any]:
    """Loaded engine modules that have a name `attribute` of their own."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.") and attribute in getattr(module, "__dict__", ()):
            yield module
