"""The real scheduler in this process, one iteration at a time, without HTTP.

`Engine` builds SGLang's own `Scheduler` and worker from real command-line arguments (so our plugin and its options
apply) and lets the scheduler's own event loop run in a thread that waits before every iteration. Requests enter at
exact iterations; nothing else is replaced but the sockets. A process can hold one engine, ever (the engine keeps
global state): `in_process` runs a test's scenario in a child process that already has the imports.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specswitch.engine.cpu import bootstrap

from .children import in_process, process_environment
from .stepped_loop import SteppedLoop

__all__ = ["Engine", "Output", "in_process"]


@dataclass
class Output:
    """What one request got. `meta` holds the scheduler's counts for it; logprobs are None unless asked for."""

    output_ids: list[int]
    finish_reason: dict[str, Any] | None
    meta: dict[str, Any] = field(default_factory=dict)


class Engine:
    """A scheduler with its worker. path: `none`, `v1` or `v2`; server_args: command-line options by their names.

    tp_rank: which rank of `tp_size` this process is; the others are engines in processes of their own, with one
    `nccl_port`.

    Options are given as keyword arguments (`page_size=16`, `speculative_disable_batch_threshold=4`, flags as True);
    None leaves one out. Defaults: float32, 8192 KV slots, 64 running requests, 3 draft steps of top-k 1.
    """

    def __init__(
        self,
        path: str,
        model_dir: Path | str,
        draft_dir: Path | str | None = None,
        tp_rank: int = 0,
        **server_args: Any,
    ):
        if path not in ("none", "v1", "v2"):
            raise ValueError(f"path={path!r}: none, v1 or v2")
        os.environ |= process_environment() | {"SGLANG_ENABLE_SPEC_V2": "true" if path == "v2" else "false"}
        bootstrap.activate()
        from sglang.srt.plugins import load_plugins

        load_plugins()
        from sglang.srt.managers.scheduler import Scheduler, configure_scheduler_process
        from sglang.srt.server_args import PortArgs, prepare_server_args

        from specswitch.engine import cpu

        if not cpu.installed():
            raise RuntimeError(
                "the CPU reference platform is not in place: see the log for the plugin's exception"
            )
        options = _default_options(path, model_dir, draft_dir) | server_args
        self.path = path
        self.server_args = prepare_server_args(_argv(options))
        ports = PortArgs.init_new(self.server_args)
        configure_scheduler_process(self.server_args, 0, tp_rank, 0, 0, 0, 0, None)
        self.scheduler = Scheduler(self.server_args, ports, 0, tp_rank, 0, 0, 0, 0, None)
        self.outbox: list[Any] = []
        self.decode_steps: list[tuple[int, Any]] = []  # (batch, StepInfo) of every decode step
        self.requests: dict[str, Any] = {}
        self.steps = 0
        self._pending: dict[int, list[Any]] = defaultdict(list)
        self._expected: set[str] = set()
        self._results: dict[str, Output] = {}
        self._loop = SteppedLoop(self.scheduler.run_event_loop)
        self._connect()

    @property
    def worker(self) -> Any:
        """The worker the scheduler runs: TpModelWorker, EAGLEWorker, EAGLEWorkerV2 or a subclass."""
        return self.scheduler.model_worker

    def submit(
        self,
        input_ids: Sequence[int],
        sampling_params: dict[str, Any] | None = None,
        *,
        at_step: int | None = None,
        rid: str | None = None,
        return_logprob: bool = False,
        top_logprobs_num: int = 0,
        token_ids_logprob: Sequence[int] | None = None,
        stream: bool = False,
        **more: Any,
    ) -> str:
        """Queue a request for iteration `at_step` (default: the next one; the first is 0). Returns its id.

        sampling_params as in the HTTP API, temperature 0 if not given; `more`: fields of TokenizedGenerateReqInput.
        """
        from sglang.srt.managers.io_struct import TokenizedGenerateReqInput
        from sglang.srt.sampling.sampling_params import SamplingParams

        rid = rid or f"r{len(self._expected)}"
        params = SamplingParams(**({"temperature": 0.0} | (sampling_params or {})))
        params.normalize(self.scheduler.tokenizer)
        params.verify(self.scheduler.model_config.vocab_size)
        request = TokenizedGenerateReqInput(
            rid=rid,
            input_text="",
            input_ids=list(input_ids),
            mm_inputs=None,
            sampling_params=params,
            return_logprob=return_logprob,
            logprob_start_len=-1,
            top_logprobs_num=top_logprobs_num,
            token_ids_logprob=token_ids_logprob,
            stream=stream,
            **more,
        )
        self._expected.add(rid)
        self.send(request, at_step=at_step)
        return rid

    def send(self, message: Any, *, at_step: int | None = None) -> None:
        """Hand any request object to the scheduler at iteration `at_step` (default: the next one)."""
        step = self.steps if at_step is None else at_step
        if step < self.steps:
            raise ValueError(f"at_step={step} has passed, the next iteration is {self.steps}")
        self._pending[step].append(message)

    def abort(self, rid: str, *, at_step: int | None = None) -> None:
        """Abort a request at iteration `at_step` (default: the next one)."""
        from sglang.srt.managers.io_struct import AbortReq

        self.send(AbortReq(rid=rid), at_step=at_step)

    def flush(self) -> bool:
        """Empty the prefix cache now; False if the scheduler refused because it is busy."""
        return bool(self._loop.between(self.scheduler.flush_cache))

    def step(self, count: int = 1) -> None:
        """Run `count` iterations of the scheduler's loop. Exceptions of the scheduler are raised here."""
        for _ in range(count):
            self._loop.advance()
            self.steps += 1

    def run(self, max_steps: int = 5000) -> dict[str, Output]:
        """Iterate until every submitted request has finished, and until the scheduler is idle; returns all results."""
        start = self.steps
        while self._pending or self._expected - set(self._results) or not self.scheduler.is_fully_idle():
            if self.steps - start >= max_steps:
                raise TimeoutError(
                    f"unfinished after {max_steps} steps: {sorted(self._expected - set(self._results))}"
                )
            self.step()
        self.step()  # an idle iteration: the scheduler checks its pools for leaks
        return dict(self._results)

    def generate(
        self, prompts: Sequence[Sequence[int]], sampling_params: dict[str, Any] | None = None
    ) -> list[Output]:
        """Submit all prompts at once and return their outputs in order."""
        rids = [self.submit(p, sampling_params) for p in prompts]
        results = self.run()
        return [results[rid] for rid in rids]

    def running(self) -> list[str]:
        """Ids of the requests in the decode batch."""
        return [r.rid for r in self.scheduler.running_batch.reqs]

    def _connect(self) -> None:
        scheduler = self.scheduler
        scheduler.recv_requests = self._receive
        scheduler.send_to_tokenizer = scheduler.send_to_detokenizer = _Outbox(self.outbox)
        stream_output = scheduler.stream_output

        def watch(reqs: list[Any], *args: Any, **kwargs: Any) -> Any:
            for req in reqs:
                self.requests[req.rid] = req
                if req.finished() and req.rid not in self._results:
                    self._results[req.rid] = _output(req)
            return stream_output(reqs, *args, **kwargs)

        scheduler.stream_output = watch
        self._keep_decode_steps()

    def _keep_decode_steps(self) -> None:
        from specswitch.engine.scheduler_hooks import counters_of

        counters = counters_of(self.scheduler)
        record = counters.record

        def kept(info: Any, batch: int, *args: Any, **kwargs: Any) -> float:
            self.decode_steps.append((batch, info))
            return record(info, batch, *args, **kwargs)

        counters.record = kept  # type: ignore[method-assign]

    def _receive(self) -> list[Any]:
        self._loop.wait_for_turn()
        return self._pending.pop(self.steps, [])


class _Outbox:
    """Takes the place of the sockets to the tokenizer and the detokenizer."""

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages

    def send_output(self, output: Any, recv_obj: Any = None) -> None:
        if type(output).__name__ == "AbortReq":
            return
        self.messages.append(output)


def _output(req: Any) -> Output:
    reason = req.finished_reason.to_json() if req.finished_reason is not None else None
    return Output(
        output_ids=list(req.output_ids_through_stop),
        finish_reason=reason,
        meta={
            "cached_tokens": req.cached_tokens,
            "retraction_count": req.retraction_count,
            "spec_verify_ct": req.spec_verify_ct,
            "spec_num_correct_drafts": req.spec_num_correct_drafts,
            "output_token_logprobs": req.output_token_logprobs_val,
            "output_token_logprobs_ids": req.output_token_logprobs_idx,
        },
    )


def _default_options(path: str, model_dir: Path | str, draft_dir: Path | str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "model_path": model_dir,
        "device": "cpu",
        "dtype": "float32",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "max_running_requests": 64,
        "max_total_tokens": 8192,
        "disable_cuda_graph": True,
        "random_seed": 1,
        "log_level": "warning",
        "watchdog_timeout": 100000,
    }
    if path != "none":
        if draft_dir is None:
            raise ValueError(f"path={path!r} needs draft_dir")
        options |= {
            "speculative_algorithm": "EAGLE3",
            "speculative_draft_model_path": draft_dir,
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
        }
    return options


def _argv(options: dict[str, Any]) -> list[str]:
    argv = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            argv.append(flag)
        elif value is not None and value is not False:
            argv += [flag, str(value)]
    return argv
