"""Greedy EAGLE-3 with chains of drafts in forty lines of plain torch: no cache, no batch, no engine.

Every forward recomputes the whole sequence. Draft input at index i: embedding of token i + 1 and, for a token the
target has seen, its captured hidden states at position i; for a drafted token, the draft's own last output.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention, silu


@dataclass
class Reference:
    """A target and a draft, loaded from their directories."""

    target: dict[str, Tensor]
    draft: dict[str, Tensor]
    config: dict
    draft_config: dict

    @classmethod
    def load(cls, target: Path, draft: Path) -> Reference:
        def config(directory: Path) -> dict:
            return json.loads((directory / "config.json").read_text(encoding="utf-8"))

        weights = (load_file(d / "model.safetensors") for d in (target, draft))
        return cls(*weights, config(target), config(draft))

    def target_logits(self, tokens: list[int]) -> Tensor:
        """[T, V]."""
        return self.target_forward(tokens)[0]

    def target_forward(self, tokens: list[int]) -> tuple[Tensor, Tensor]:
        """Logits after every token [T, V], and the captured hidden states [T, 3H]."""
        x = self.target["model.embed_tokens.weight"][tokens]
        captured = []
        for i in range(self.config["num_hidden_layers"]):
            w = _below(self.target, f"model.layers.{i}.")
            x = x + attention(rms(x, w["input_layernorm.weight"]), w, self.config)
            x = x + mlp(rms(x, w["post_attention_layernorm.weight"]), w)
            if i in self.draft_config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]:
                captured.append(x)
        logits = linear(rms(x, self.target["model.norm.weight"]), self.target["lm_head.weight"])
        return logits, torch.cat(captured, -1)

    def draft_forward(self, tokens: list[int], hidden: Tensor) -> tuple[int, Tensor]:
        """Most likely next token after the last one, and the draft's output there. tokens, hidden: [T], [T, H]."""
        w = _below(self.draft, "midlayer.")
        embedded = rms(self.target["model.embed_tokens.weight"][tokens], w["input_layernorm.weight"])
        both = torch.cat([embedded, rms(hidden, w["hidden_norm.weight"])], -1)
        x = hidden + attention(both, w, self.draft_config)
        x = (x + mlp(rms(x, w["post_attention_layernorm.weight"]), w))[-1]
        choice = int(linear(rms(x, self.draft["norm.weight"]), self.draft["lm_head.weight"]).argmax())
        return choice + int(self.draft["d2t"][choice]), x

    def generate(self, prompt: list[int], new_tokens: int, steps: int) -> tuple[list[int], int, int]:
        """Greedy continuation, drafts accepted in all, verifications. Counts drafts past the length limit too."""
        tokens = [*prompt, int(self.target_logits(prompt)[-1].argmax())]
        accepted = verified = 0
        while len(tokens) - len(prompt) < new_tokens:
            drafts = self.drafts(tokens, steps)
            argmax = self.target_logits(tokens + drafts)[len(tokens) - 1 :].argmax(-1).tolist()
            right = 0
            while right < steps and drafts[right] == argmax[right]:
                right += 1
            tokens += argmax[: right + 1]
            accepted += right
            verified += 1
        return tokens[len(prompt) :][:new_tokens], accepted, verified

    def drafts(self, tokens: list[int], steps: int) -> list[int]:
        """A chain of drafts after tokens, of which the target has not seen the last."""
        hidden = linear(self.target_forward(tokens[:-1])[1], self.draft["fc.weight"])
        shifted, chain = tokens[1:], []
        for _ in range(steps):
            token, output = self.draft_forward(shifted + chain, hidden)
            chain.append(token)
            hidden = torch.cat([hidden, output[None]])
        return chain


def rms(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def mlp(x: Tensor, w: dict[str, Tensor]) -> Tensor:
    gated = silu(linear(x, w["mlp.gate_proj.weight"])) * linear(x, w["mlp.up_proj.weight"])
    return linear(gated, w["mlp.down_proj.weight"])


def attention(x: Tensor, w: dict[str, Tensor], config: dict) -> Tensor:
    """Causal self-attention with rotary positions 0, 1, ...; x: [T, any]."""
    size = config["head_dim"]
    q, k, v = (
        linear(x, w[f"self_attn.{n}_proj.weight"]).view(len(x), -1, size).transpose(0, 1)
        for n in ("q", "k", "v")
    )
    frequency = config["rope_theta"] ** (-torch.arange(0, size, 2) / size)
    angle = torch.arange(len(x))[:, None] * frequency
    cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))

    def rotate(y: Tensor) -> Tensor:
        first, second = y.chunk(2, -1)
        return y * cos + torch.cat([-second, first], -1) * sin

    repeat = len(q) // len(k)
    k, v = (y.repeat_interleave(repeat, 0) for y in (rotate(k), v))
    out = scaled_dot_product_attention(rotate(q), k, v, is_causal=True)
    return linear(out.transpose(0, 1).reshape(len(x), -1), w["self_attn.o_proj.weight"])


def _below(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
