"""Tensor parallelism on a CPU: the engine's own gloo path, once it stops trying NCCL."""

from __future__ import annotations


class NcclUnavailable:
    """Refuses to be made, so that the engine goes on without NCCL, as it does where the library is not installed.

    Stands for `sglang.srt.distributed.device_communicators.pynccl.NCCLLibrary`, which would be found in a CUDA build
    of torch and then ask for a CUDA device.
    """

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise RuntimeError("no NCCL on the CPU platform: tensor-parallel ranks talk over gloo")
