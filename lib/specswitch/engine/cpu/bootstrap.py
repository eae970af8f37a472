"""Early entry of the CPU reference platform (entry-point group `sglang.srt.platforms`).

The engine resolves that group while its own modules are being imported, in every process. Only what has to
happen before those modules are loaded is done here; the rest waits for `specswitch.engine.cpu.install`.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from specswitch.engine.cpu import requested

# Read by the engine or by its libraries while they are imported; child processes inherit them.
EARLY_ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",  # sglang.srt.utils.is_cpu
    "TRITON_INTERPRET": "1",  # a Triton kernel we did not replace runs interpreted instead of failing
    "TORCHDYNAMO_DISABLE": "1",  # else the first requests compile for half a minute and need a C++ compiler
}


def activate() -> None:
    """Prepare this process for running without CUDA; inert unless `SPECSWITCH_CPU=1`.

    Always returns None: no out-of-tree platform is claimed, the engine keeps its own.
    """
    if not requested():
        return
    os.environ.update(EARLY_ENVIRONMENT)
    _forget_cached_answers()
    _stub_kernel_loader()
    _neutralise_cuda_calls()


def active() -> bool:
    """True if `activate` has done its work in this process."""
    return getattr(sys.modules.get("sgl_kernel.load_utils"), "__name__", "") == _STUB_NAME


_STUB_NAME = "specswitch.engine.cpu.sgl_kernel_load_utils"


def _forget_cached_answers() -> None:
    """Let `is_cpu` read the environment again if the engine asked it before we were called."""
    utils = sys.modules.get("sglang.srt.utils.common")
    if utils is not None:
        utils.is_cpu.cache_clear()


def _stub_kernel_loader() -> None:
    """Let `import sgl_kernel` succeed without libcuda; its compiled ops stay absent."""
    stub = types.ModuleType(_STUB_NAME)
    stub._load_architecture_specific_ops = lambda: None  # type: ignore[attr-defined]
    stub._preload_cuda_library = lambda: None  # type: ignore[attr-defined]
    sys.modules["sgl_kernel.load_utils"] = stub


def _neutralise_cuda_calls() -> None:
    """Make the three CUDA calls on the engine's CPU path do nothing where there is no CUDA."""
    import torch

    if torch.cuda.is_available():
        return  # install() refuses this machine with an explanation
    torch.cuda.synchronize = _no_op  # sglang.srt.models.llama: set_embed
    torch.Tensor.record_stream = _no_op  # type: ignore[method-assign]  # sglang.srt.speculative.eagle_worker_v2
    torch.tensor = _unpinned(torch.tensor)  # sglang.srt.layers.logits_processor, for logprobs of the prompt


def _no_op(*_args: object, **_kwargs: object) -> None:
    """Stand in for a call that orders CUDA work."""


def _unpinned(tensor: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.tensor` without `pin_memory`, which raises RuntimeError where there is no CUDA."""

    @functools.wraps(tensor)
    def unpinned(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
        return tensor(*args, **kwargs)

    return unpinned
