"""The engine's own Triton backend, asked to prepare a captured draft extend; its one kernel replaced, for want of a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specswitch.engine.draft_extend_queries import PREPARE, lay_out_by_accepted

triton_backend = pytest.importorskip("sglang.srt.layers.attention.triton_backend")
from sglang.srt.model_executor.forward_batch_info import ForwardMode  # noqa: E402

STEPS = 3


class KernelLaunch:
    """Stands in for the kernel that gathers KV slots, which has no part in the layout of queries."""

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args: None


class Accepted:
    """As a draft extend input: accepted tokens of each request, those that pad the batch full."""

    def __init__(self, *counts: int) -> None:
        self.num_accept_tokens = torch.tensor(counts)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(triton_backend, "create_flashinfer_kv_indices_triton", KernelLaunch())
    made = object.__new__(triton_backend.TritonAttnBackend)
    made.device, made.speculative_num_steps = "cpu", STEPS
    made.qo_indptr = torch.zeros(9, dtype=torch.int32)
    made.kv_indptr = torch.zeros(9, dtype=torch.int32)
    made.cuda_graph_kv_indices = torch.zeros(64, dtype=torch.int64)
    made.req_to_token = torch.zeros((8, 32), dtype=torch.int32)
    return made


def prepared(backend: Any, mode: Any, *counts: int) -> list[int]:
    """Where the queries of each request begin, and the end, once a replay is prepared."""
    bs = len(counts)
    lens = torch.full((bs,), 7)
    getattr(backend, PREPARE)(
        bs=bs,
        req_pool_indices=torch.arange(bs),
        seq_lens=lens,
        seq_lens_sum=7 * bs,
        encoder_lens=None,
        forward_mode=mode,
        spec_info=Accepted(*counts),
        seq_lens_cpu=lens,
    )
    return backend.qo_indptr[: bs + 1].tolist()


def test_the_pinned_engine_assumes_the_same_number_for_all(backend: Any) -> None:
    """When this fails the engine does it right by itself, and the module under test can go."""
    assert prepared(backend, ForwardMode.DRAFT_EXTEND, 1, 3, 2) == [0, 4, 8, 12]


def test_queries_of_v1_begin_where_the_accepted_tokens_before_them_end(backend: Any) -> None:
    assert lay_out_by_accepted(backend)
    assert prepared(backend, ForwardMode.DRAFT_EXTEND, 1, 3, 2) == [0, 1, 4, 6]
    assert prepared(backend, ForwardMode.DRAFT_EXTEND, 2, 1, 4, 4) == [
        0,
        2,
        3,
        7,
        11,
    ]  # the last pads the batch


def test_v2_and_other_backends_are_left_as_they_are(backend: Any) -> None:
    lay_out_by_accepted(backend)
    assert prepared(backend, ForwardMode.DRAFT_EXTEND_V2, 1, 3, 2) == [0, 4, 8, 12]
    other = type("OtherBackend", (), {})()
    assert not lay_out_by_accepted(other)
    assert not hasattr(other, PREPARE)
    assert not lay_out_by_accepted(None)


def test_a_backend_that_takes_other_arguments_is_left_as_it_is(backend: Any, caplog: Any) -> None:
    def new(bs: int, forward_batch: Any) -> None: ...

    setattr(backend, PREPARE, new)
    assert not lay_out_by_accepted(backend)
    assert getattr(backend, PREPARE) is new
    assert "other arguments" in caplog.text
