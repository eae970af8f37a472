"""What a plain step runs on: its own decode attention backend and CUDA graphs beside the verify ones.

A speculating engine captures verify-shaped graphs only, and its graph runner would replay one of them for a
DECODE batch without noticing. So plain steps swap in a backend and a graph runner captured as a plain server
captures them (DECODE, one token per request, hidden states on), and with CUDA graphs off they run with none.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.utils import get_available_gpu_memory

logger = logging.getLogger(__name__)


class PlainRuntime:
    """Attention backend and graph runner of plain steps, for one target model runner."""

    def __init__(self, model_runner: Any, device: str) -> None:
        self.model_runner = model_runner
        self.attn_backend = model_runner.attn_backend
        self.graph_runner = None
        if device == "cuda":
            self._build()

    def _build(self) -> None:
        runner, args = self.model_runner, self.model_runner.server_args
        before, tic = get_available_gpu_memory(runner.device, runner.gpu_id), time.perf_counter()
        with _as_plain_server(runner):
            workspace = runner.init_new_workspace
            try:
                self.attn_backend = runner._get_attention_backend(init_new_workspace=True)
            finally:
                runner.init_new_workspace = workspace
            if not args.disable_cuda_graph:
                self.graph_runner = CudaGraphRunner(runner, attn_backend=self.attn_backend)
        after = get_available_gpu_memory(runner.device, runner.gpu_id)
        logger.info(
            "Plain decode runtime: graphs for batch sizes %s, %.2f s, %.2f GB",
            None if self.graph_runner is None else self.graph_runner.capture_bs,
            time.perf_counter() - tic,
            before - after,
        )

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """While inside, the target model runner is that of a plain server."""
        runner = self.model_runner
        saved = runner.attn_backend, runner.graph_runner
        runner.attn_backend, runner.graph_runner = self.attn_backend, self.graph_runner
        try:
            yield
        finally:
            runner.attn_backend, runner.graph_runner = saved


@contextlib.contextmanager
def _as_plain_server(runner: Any) -> Iterator[None]:
    """Let backend and graph runner read the arguments of a server without speculation, hidden states on."""
    args = runner.server_args
    overrides = {
        "speculative_algorithm": None,
        "speculative_num_draft_tokens": None,
        "speculative_num_steps": None,
        "speculative_eagle_topk": None,
        "enable_return_hidden_states": True,
    }
    saved = {name: getattr(args, name) for name in overrides}
    algorithm = runner.spec_algorithm
    runner.spec_algorithm = SpeculativeAlgorithm.NONE
    for name, value in overrides.items():
        setattr(args, name, value)
    try:
        yield
    finally:
        runner.spec_algorithm = algorithm
        for name, value in saved.items():
            setattr(args, name, value)
