"""Constrained decoding: applying the grammar's bit mask to logits on a CPU."""

from __future__ import annotations

import torch
import xgrammar


def apply_vocab_mask(grammar: object, logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
    """Set the logits of tokens the grammar forbids to -inf, in place.

    logits: [N, V] float; vocab_mask: [N, ceil(V / 32)] int32, one bit per token. Stands for
    `sglang.srt.constrained.xgrammar_backend.XGrammarGrammar.apply_vocab_mask`, which refuses CPU tensors.
    """
    if logits.dtype == torch.float32:
        xgrammar.apply_token_bitmask_inplace(logits, vocab_mask)
        return
    as_float = logits.float()  # xgrammar's CPU kernel knows float32 only
    xgrammar.apply_token_bitmask_inplace(as_float, vocab_mask)
    logits.copy_(as_float)
