"""A pair as plain torch modules: a Llama target and a one-layer EAGLE-3 draft.

Training and the plain reference use these; the engine never does, which is what makes the reference a check.
Parameter names are those of the checkpoints, so a state dict is a file. Not for speed at inference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the pair. `aux_layers`: target layers (from 0) whose output the draft sees, exactly three.

    tied: the target's head is its embedding.
    """

    hidden: int = 256
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    mlp: int = 640
    vocab: int = 2048
    draft_vocab: int = 1536
    context: int = 1024
    aux_layers: tuple[int, int, int] = (1, 4, 6)
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5
    tied: bool = True


@dataclass(slots=True)
class Cache:
    """Keys and values seen so far, one (k, v) per layer, each [batch, kv_heads, room, head_dim]."""

    room: int
    length: int = 0
    layers: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write k, v behind the first `length` positions; returns all up to the new ones.

        `length` itself is moved by the caller once all layers have written.
        """
        if layer not in self.layers:
            batch, heads, _, dim = k.shape
            self.layers[layer] = (
                k.new_empty(batch, heads, self.room, dim),
                k.new_empty(batch, heads, self.room, dim),
            )
        end = self.length + k.shape[2]
        for store, new in zip(self.layers[layer], (k, v), strict=True):
            store[:, :, self.length : end] = new
        keys, values = self.layers[layer]
        return keys[:, :, :end], values[:, :, :end]

    def keep(self, rows: Tensor) -> None:
        """Forget all sequences but `rows` (int64 [n]), which become sequences 0 .. n - 1."""
        for layer, (k, v) in self.layers.items():
            self.layers[layer] = (k[rows], v[rows])


class Norm(nn.Module):
    """RMS normalisation in fp32, as Llama does it."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> the same shape and dtype."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


def rotary(shape: Shape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [len(positions), head_dim] of rotary positions (int, any order), halves layout."""
    half = torch.arange(0, shape.head_dim, 2, device=positions.device, dtype=torch.float32) / shape.head_dim
    angle = positions.float()[:, None] * shape.rope_theta**-half
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary positions to x [batch, heads, T, head_dim]."""
    left, right = x.float().chunk(2, -1)
    turned = torch.cat((-right, left), -1)
    return (x.float() * cos + turned * sin).to(x.dtype)


class Attention(nn.Module):
    """Grouped-query attention; `width` is the size of its input, twice `hidden` in the draft."""

    def __init__(self, shape: Shape, width: int) -> None:
        super().__init__()
        self.shape = shape
        self.q_proj = nn.Linear(width, shape.heads * shape.head_dim, bias=False)
        self.k_proj = nn.Linear(width, shape.kv_heads * shape.head_dim, bias=False)
        self.v_proj = nn.Linear(width, shape.kv_heads * shape.head_dim, bias=False)
        self.o_proj = nn.Linear(shape.heads * shape.head_dim, shape.hidden, bias=False)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, T, width] -> q [B, heads, T, D], k and v [B, kv_heads, T, D], q and k rotated."""
        q, k, v = (
            p(x).unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def output(self, mixed: Tensor) -> Tensor:
        """mixed [B, heads, T, D] -> [B, T, hidden]."""
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of the last q positions over all k positions, each up to its own: [B, heads, T, D]."""
    new, total = q.shape[2], k.shape[2]
    if new == total:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    if new == 1:
        # The heads of a group as query rows: each sees all keys, and the fused kernels need no grouped heads,
        # for which they fall back to a slow path. On the CPU by hand is faster still.
        grouped = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])
        if q.is_cuda:
            return F.scaled_dot_product_attention(grouped, k, v).reshape(q.shape)
        weights = (grouped @ k.transpose(-1, -2) * q.shape[3] ** -0.5).softmax(-1)
        return (weights @ v).view(q.shape)
    mask = torch.ones(new, total, dtype=torch.bool, device=q.device).tril(total - new)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


class Mlp(nn.Module):
    """SwiGLU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.mlp, bias=False)
        self.down_proj = nn.Linear(shape.mlp, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] -> the same shape."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One decoder layer of the target."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape, shape.hidden)
        self.post_attention_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, index: int) -> Tensor:
        """x [B, T, hidden] -> the same shape."""
        q, k, v = self.self_attn.project(self.input_layernorm(x), cos, sin)
        if cache is not None:
            k, v = cache.append(index, k, v)
        x = x + self.self_attn.output(causal(q, k, v))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers and last norm of the target."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden, shape.norm_eps)


class Target(nn.Module):
    """The target, its head tied to the embedding unless the shape says otherwise."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.model = Decoder(shape)
        if not shape.tied:
            self.lm_head = nn.Linear(shape.hidden, shape.vocab, bias=False)

    def forward(self, ids: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor]:
        """ids [B, T], standing behind what the cache holds.

        Returns the normed last hidden state [B, T, hidden] (`head` makes logits of it) and the draft's food
        aux [B, T, 3 * hidden]: the residual stream behind the layers `shape.aux_layers`.
        """
        shape, start = self.model.shape, cache.length if cache else 0
        cos, sin = rotary(shape, torch.arange(start, start + ids.shape[1], device=ids.device))
        x = self.model.embed_tokens(ids)
        aux = []
        for index, layer in enumerate(self.model.layers):
            x = layer(x, cos, sin, cache, index)
            if index in shape.aux_layers:
                aux.append(x)
        if cache is not None:
            cache.length += ids.shape[1]
        return self.model.norm(x), torch.cat(aux, -1)

    @property
    def head_weight(self) -> Tensor:
        """Rows of the head [vocab, hidden]."""
        return self.model.embed_tokens.weight if self.model.shape.tied else self.lm_head.weight

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocab]."""
        return F.linear(hidden, self.head_weight)


class DraftLayer(nn.Module):
    """The draft's only layer: attention over the pair (next token's embedding, hidden state)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.hidden_norm = Norm(shape.hidden, shape.norm_eps)
        self.self_attn = Attention(shape, 2 * shape.hidden)
        self.post_attention_layernorm = Norm(shape.hidden, shape.norm_eps)
        self.mlp = Mlp(shape)

    def project(
        self, embeds: Tensor, hidden: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v of inputs [B, T, hidden] each."""
        return self.self_attn.project(
            torch.cat((self.input_layernorm(embeds), self.hidden_norm(hidden)), -1), cos, sin
        )

    def finish(self, hidden: Tensor, mixed: Tensor) -> Tensor:
        """What the attention mixed, back onto the residual: the pre-norm state [B, T, hidden] fed back next."""
        x = hidden + self.self_attn.output(mixed)
        return x + self.mlp(self.post_attention_layernorm(x))


class Draft(nn.Module):
    """One EAGLE-3 layer with its own head over the draft vocabulary. The embedding is the target's.

    `d2t` [draft_vocab] int64: target id minus draft id, as the checkpoint format has it.
    """

    d2t: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.fc = nn.Linear(3 * shape.hidden, shape.hidden, bias=False)
        self.midlayer = DraftLayer(shape)
        self.norm = Norm(shape.hidden, shape.norm_eps)
        self.lm_head = nn.Linear(shape.hidden, shape.draft_vocab, bias=False)
        self.register_buffer("d2t", torch.zeros(shape.draft_vocab, dtype=torch.int64))

    def forward(self, embeds: Tensor, hidden: Tensor, cache: Cache) -> Tensor:
        """One pass behind what the cache holds: embeds of the NEXT tokens and hidden states [B, T, hidden].

        Returns the pre-norm state [B, T, hidden].
        """
        start = cache.length
        cos, sin = rotary(self.shape, torch.arange(start, start + embeds.shape[1], device=embeds.device))
        q, k, v = self.midlayer.project(embeds, hidden, cos, sin)
        k, v = cache.append(0, k, v)
        cache.length += embeds.shape[1]
        return self.midlayer.finish(hidden, causal(q, k, v))

    def head(self, state: Tensor) -> Tensor:
        """Logits over the draft vocabulary [..., draft_vocab] of pre-norm states."""
        return self.lm_head(self.norm(state))

    def to_target(self, draft_ids: Tensor) -> Tensor:
        """Target ids of draft ids, same shape."""
        return draft_ids + self.d2t[draft_ids]


def init_weights(module: nn.Module, shape: Shape, seed: int) -> None:
    """Seeded start: normal(0.02), matrices that write to the residual scaled down with depth, norms 1."""
    generator = torch.Generator().manual_seed(seed)
    quieter = (2 * shape.layers) ** -0.5
    for name, parameter in module.named_parameters():
        if parameter.ndim < 2:
            continue
        scale = 0.02 * (quieter if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0)
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
