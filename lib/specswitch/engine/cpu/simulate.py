"""Forced acceptance length (`SGLANG_SIMULATE_ACC_LEN`), for speed studies without a trained draft."""

from __future__ import annotations

import torch

PLACEHOLDER_TOKEN = 100  # what the engine itself puts into simulated outputs


def generate_simulated_accept_index(
    accept_index: torch.Tensor,
    predict: torch.Tensor,
    num_correct_drafts: torch.Tensor,
    bs: int,
    spec_steps: int,
    simulate_acc_len: float | None = None,
    simulate_acc_method: str | None = None,
) -> torch.Tensor:
    """Pretend that every request accepted the same number of tokens, `simulate_acc_len` on average over steps.

    accept_index: [bs, spec_steps + 1] int32; predict and num_correct_drafts [bs] are overwritten. Returns the new
    accept_index. A fractional length is met by drawing the next lower or higher whole one; the engine's other
    method, "multinomial", draws from a normal distribution of standard deviation 1 around the length. Stands for
    `sglang.srt.speculative.spec_utils.generate_simulated_accept_index`, which wants CUDA.
    """
    from sglang.srt.speculative import spec_utils

    target = spec_utils.SIMULATE_ACC_LEN if simulate_acc_len is None else simulate_acc_len
    method = simulate_acc_method or spec_utils.SIMULATE_ACC_METHOD
    if method == "multinomial":
        length = round(float(torch.normal(float(target), 1.0, (1,))))
    elif method == "match-expected":
        length = int(target) + int(float(torch.rand(())) < target - int(target))
    else:
        raise ValueError(f"SGLANG_SIMULATE_ACC_METHOD={method}: use multinomial or match-expected")
    length = min(max(length, 1), spec_steps + 1)
    simulated = torch.full((bs, spec_steps + 1), -1, dtype=torch.int32)
    simulated[:, :length] = accept_index[:, :1] + torch.arange(length)
    num_correct_drafts.fill_(length - 1)
    predict.fill_(PLACEHOLDER_TOKEN)
    return simulated
