"""DiffusionGemma's network: one stack that reads text causally (encoder) and a canvas both ways (decoder).

The two differ by a number per layer and by self-conditioning, so one pass may hold tokens of both. Every layer adds
experts to its dense MLP. Source: transformers' `DiffusionGemmaForBlockDiffusion`; arXiv:2608.00146.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.gemma.config import NORMS, GemmaConfig
from anyorder.models.gemma.vision import Vision
from anyorder.models.linear import Linear
from anyorder.models.moe.layer import Matrices, mix
from anyorder.models.moe.router import Blocks
from anyorder.models.norm import rms_norm
from anyorder.models.rope import rotate
from anyorder.models.transformer import Attend, Changes, Transformer
from anyorder.pictures import Picture

gelu = partial(F.gelu, approximate="tanh")
Turns = tuple[Tensor, Tensor]
"""Cosines and signed sines for `rotate`."""


class Conditioning(nn.Module):
    """Input embeddings of a canvas, told what the pass before expected: norm, gated MLP, sum, norm without weights."""

    def __init__(self, config: GemmaConfig) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.eps = config.rms_norm_eps
        self.norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = Linear(hidden, 2 * inner)
        self.down = Linear(inner, hidden)

    def forward(self, x: Tensor, soft: Tensor) -> Tensor:
        """x, soft [T, hidden] -> [T, hidden]; soft is 0 where nothing was expected yet."""
        gate, up = self.gate_up(rms_norm(soft, self.norm, self.eps)).chunk(2, -1)
        return unit(x + self.down(gelu(gate) * up), self.eps)


@dataclass(frozen=True, eq=False)
class CanvasTokens:
    """Which tokens of a pass belong to a canvas, and what they were expected to be."""

    conditioning: Conditioning
    on: Tensor
    """[T, 1] bool."""
    soft: Tensor
    """[T, hidden], 0 elsewhere."""

    def embed(self, x: Tensor) -> Tensor:
        """The input embeddings x, [T, hidden], told."""
        return torch.where(self.on, self.conditioning(x, self.soft), x)

    def among(self, rows: Tensor) -> CanvasTokens:
        """The same for some of the tokens, [R] int64."""
        return CanvasTokens(self.conditioning, self.on[rows], self.soft)


@dataclass(frozen=True, eq=False)
class Fed:
    """What a pass feeds that is not text: tokens of canvases, vectors of pictures."""

    canvas: CanvasTokens | None
    pictures: Sequence[tuple[int, Tensor]]
    """From a token on the vectors that are fed instead, [n, hidden] each."""

    def embed(self, ids: Tensor, x: Tensor, /) -> Tensor:
        """See `Changes.embed`; x is scaled, and may be written to."""
        for first, vectors in self.pictures:
            x[first : first + vectors.shape[0]] = vectors
        return x if self.canvas is None else self.canvas.embed(x)

    def add(self, layer: int, product: str, x: Tensor, y: Tensor, /) -> Tensor:
        """See `Changes.add`; products are shared."""
        return y

    def among(self, rows: Tensor, /) -> Fed:
        """See `Changes.among`; what is fed is fed in front of the layers."""
        return Fed(self.canvas and self.canvas.among(rows), ())


class GemmaLayer(nn.Module):
    """Attention, then a dense MLP and experts side by side; a norm before and after each."""

    def __init__(self, config: GemmaConfig, index: int) -> None:
        super().__init__()
        hidden, inner, moe = config.hidden_size, config.intermediate_size, config.moe
        assert moe is not None, "every layer has experts"
        kv_heads, self.width = config.kv_shape(index)
        self.index, self.eps, self.top_k = index, config.rms_norm_eps, moe.top_k
        self.heads = (config.num_heads, *((kv_heads,) if config.full[index] else (kv_heads, kv_heads)))
        self.qkv = Linear(hidden, sum(self.heads) * self.width)
        self.out = Linear(config.num_heads * self.width, hidden)
        self.query_norm = nn.Parameter(torch.ones(self.width))
        self.key_norm = nn.Parameter(torch.ones(self.width))
        for name in NORMS.values():
            self.register_parameter(name, nn.Parameter(torch.ones(hidden)))
        self.gate_up = Linear(hidden, 2 * inner)
        self.down = Linear(inner, hidden)
        self.router = nn.Parameter(torch.empty(moe.num_experts, hidden))
        self.router_scale = nn.Parameter(torch.ones(hidden))
        self.expert_scale = nn.Parameter(torch.ones(moe.num_experts))
        self.experts_gate_up: Matrices = nn.Parameter(torch.empty(moe.num_experts, 2 * moe.expert_size, hidden))
        self.experts_down: Matrices = nn.Parameter(torch.empty(moe.num_experts, hidden, moe.expert_size))
        self.scalars = nn.Parameter(torch.ones(2))  # encoder, decoder

    def forward(
        self, x: Tensor, turns: Turns, attend: Attend, rows: Tensor | None, canvas: CanvasTokens | None
    ) -> Tensor:
        """x [T, hidden] -> [T, hidden], or [R, hidden] when only `rows` are wanted."""
        q, k, v = self._project(x, turns)
        if rows is not None:
            q, x = q[rows], x[rows]
            canvas = canvas and canvas.among(rows)
        mixed = attend(self.index, q, k, v)
        if not x.shape[0]:
            return x
        x = x + self._normed("mixed_norm", self.out(mixed.reshape(x.shape[0], -1)))
        dense = self._normed("dense_norm", self._dense(self._normed("mlp_norm", x)))
        sparse = self._normed("sparse_norm", self._experts(x))
        x = x + self._normed("sum_norm", dense + sparse)
        return x * (self.scalars[0] if canvas is None else torch.where(canvas.on, self.scalars[1], self.scalars[0]))

    def _normed(self, name: str, x: Tensor) -> Tensor:
        return rms_norm(x, self.get_parameter(name), self.eps)

    def _project(self, x: Tensor, turns: Turns) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.qkv(self._normed("attention_norm", x)).view(x.shape[0], -1, self.width).split(self.heads, 1)
        q, k, v = parts[0], parts[1], parts[-1]  # full layers have no values of their own: they are the keys
        q = rotate(rms_norm(q, self.query_norm, self.eps), *turns) * self.width**0.5  # scores are not scaled
        return q, rotate(rms_norm(k, self.key_norm, self.eps), *turns), unit(v, self.eps)

    def _dense(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(gelu(gate) * up)

    def _experts(self, x: Tensor) -> Tensor:
        """The router reads x itself, the experts read its norm."""
        scaled = unit(x, self.eps) * self.router_scale * x.shape[-1] ** -0.5
        wide = torch.promote_types(x.dtype, torch.float32)
        weights, experts = F.linear(scaled, self.router).to(wide).softmax(-1).topk(self.top_k)
        weights = weights / weights.sum(-1, keepdim=True) * self.expert_scale[experts]
        return mix(
            self._normed("experts_norm", x), experts, weights, self.experts_gate_up, self.experts_down, activation=gelu
        )


class DiffusionGemma(Transformer):
    """Token ids to hidden states, hidden states to logits; see `Transformer`."""

    def __init__(self, config: GemmaConfig) -> None:
        super().__init__(config)
        self.gemma = config
        self.layers = nn.ModuleList(GemmaLayer(config, index) for index in range(config.num_layers))
        self.conditioning = Conditioning(config)
        self.vision: Vision | None = None
        """Set when its weights are loaded."""

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        rows: Tensor | None = None,
        adapted: Changes | None = None,
        blocks: Blocks | None = None,
    ) -> Tensor:
        """See `Transformer.forward`; `adapted` is what `fed` gave."""
        assert adapted is None or isinstance(adapted, Fed), "loading refuses adapters for this network"
        assert blocks is None, "no experts are shared by block here"
        x = self.embed(ids)
        x = x * self._embed_scale(x)
        if adapted is not None:
            x = adapted.embed(ids, x)
        canvas = adapted and adapted.canvas
        config, last = self.gemma, len(self.layers) - 1
        kinds = (
            turns(config.rope_theta, config.head_dim, config.head_dim, positions, x.dtype),
            turns(config.full_rope_theta, config.full_head_dim, config.full_rotary_dim, positions, x.dtype),
        )
        for index, layer in enumerate(self.layers):
            x = layer(x, kinds[config.full[index]], attend, rows if index == last else None, canvas)
        return rms_norm(x, self.norm, config.rms_norm_eps)

    def head(self, hidden: Tensor) -> Tensor:
        """See `Transformer.head`."""
        logits, cap = super().head(hidden), self.gemma.softcap
        if logits.requires_grad:
            return (logits / cap).tanh() * cap
        return logits.div_(cap).tanh_().mul_(cap)  # further tensors of this size would cost as much as the arithmetic

    def fed(
        self,
        on: Tensor | None,
        softs: Sequence[tuple[int, Tensor]] = (),
        pictures: Sequence[tuple[int, Tensor]] = (),
    ) -> Fed:
        """What to tell a forward about its canvases and pictures.

        Args:
            on: [T] bool, the tokens that belong to a canvas; None: none does.
            softs: from a token on, what the pass before expected of it and those behind it, [n, hidden] each.
            pictures: from a token on, the vectors of a picture, [n, hidden] each, from `read`.
        """
        if on is None:
            return Fed(None, pictures)
        soft = torch.zeros(on.shape[0], self.gemma.hidden_size, dtype=self.dtype, device=self.device)
        for first, expected in softs:
            soft[first : first + expected.shape[0]] = expected
        return Fed(CanvasTokens(self.conditioning, on[:, None], soft), pictures)

    def read(self, picture: Picture) -> Tensor:
        """[length, hidden], what is fed for a picture."""
        assert self.vision is not None, "prompts with pictures are refused where there is no vision tower"
        return self.vision(picture.pixels.to(self.device), picture.positions.to(self.device))

    def soften(self, probabilities: Tensor) -> Tensor:
        """See `Transformer.soften`."""
        expected = super().soften(probabilities)
        return expected * self._embed_scale(expected)

    def _embed_scale(self, x: Tensor) -> Tensor:
        return torch.tensor(self.gemma.hidden_size**0.5, dtype=x.dtype, device=x.device)


def unit(x: Tensor, eps: float) -> Tensor:
    """RMS norm without weights over the last dimension."""
    return F.rms_norm(x, x.shape[-1:], None, eps)


def turns(theta: float, width: int, turned: int, positions: Tensor, dtype: torch.dtype) -> Turns:
    """Rotary positions of which only the first `turned` / 2 pairs of a head turn, at the speeds of the whole head.

    Args:
        positions: [T] int64.
    Returns:
        cosines and signed sines, [T, 1, width].
    """
    working = torch.float64 if dtype == torch.float64 else torch.float32
    exponents = torch.arange(0, turned, 2, device=positions.device).to(working) / width
    speeds = F.pad(1.0 / theta**exponents, (0, (width - turned) // 2))
    angles = positions[:, None].to(working) * speeds
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), -1)[:, None], torch.cat((-sin, sin), -1)[:, None]
