"""LLaDA as an ordinary PyTorch program: the yardstick of `llada_caches.py`, sharing nothing with anyorder.

The model is the published architecture (pre-norm, rotary positions, SwiGLU, no biases, bidirectional attention) from
`nn.Linear`, `nn.RMSNorm` and SDPA; every pass computes the logits of every fed position. The loops are those of
Fast-dLLM's `generate.py` (arXiv:2505.22618) without a cache, with the prefix cache and with the dual cache, in the
threshold variant; its softmax in float64 is one in float32 here, which favours this side.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeyValues = list[tuple[Tensor, Tensor]]  # per layer, each [1, H, L, D]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A LLaDA's sizes; the mask is the last id."""

    hidden: int
    inner: int
    layers: int
    heads: int
    vocab: int
    max_context: int = 1024

    @property
    def mask_id(self) -> int:
        return self.vocab - 1

    @property
    def parameters(self) -> int:
        layer = 4 * self.hidden**2 + 3 * self.hidden * self.inner + 2 * self.hidden
        return self.layers * layer + 2 * self.vocab * self.hidden + self.hidden


class Block(nn.Module):
    """One layer, named as in the published checkpoints."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        hidden, inner = sizes.hidden, sizes.inner
        self.heads = sizes.heads
        self.attn_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.attn_out = nn.Linear(hidden, hidden, bias=False)
        self.ff_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.ff_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.ff_out = nn.Linear(inner, hidden, bias=False)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, past: tuple[Tensor, Tensor] | None, replaced: slice | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x [1, T, hidden]. With `past`, the fed positions follow it, or overwrite its positions `replaced`."""
        h = self.attn_norm(x)
        q, k, v = (self._heads(projection(h)) for projection in (self.q_proj, self.k_proj, self.v_proj))
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        if past is not None and replaced is None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        elif past is not None:
            past[0][:, :, replaced], past[1][:, :, replaced] = k, v
            k, v = past
        mixed = F.scaled_dot_product_attention(q, k, v)
        x = x + self.attn_out(mixed.transpose(1, 2).flatten(2))
        h = self.ff_norm(x)
        return x + self.ff_out(F.silu(self.ff_proj(h)) * self.up_proj(h)), (k, v)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


class PlainLLaDA(nn.Module):
    """ids [1, T] -> logits [1, T, V] and the keys and values of all layers."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.wte = nn.Embedding(sizes.vocab, sizes.hidden)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.ln_f = nn.RMSNorm(sizes.hidden, eps=1e-5)
        self.ff_out = nn.Linear(sizes.hidden, sizes.vocab, bias=False)
        width = sizes.hidden // sizes.heads
        angles = torch.outer(torch.arange(sizes.max_context), 500000.0 ** (-torch.arange(0, width, 2) / width))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)

    def forward(
        self, ids: Tensor, start: int = 0, past: KeyValues | None = None, replaced: slice | None = None
    ) -> tuple[Tensor, KeyValues]:
        x = self.wte(ids)
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        kept: KeyValues = []
        for index, block in enumerate(self.blocks):
            x, layer = block(x, cos, sin, None if past is None else past[index], replaced)
            kept.append(layer)
        return self.ff_out(self.ln_f(x)), kept


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def commit(logits: Tensor, ids: Tensor, allowed: Tensor, tau: float) -> Tensor:
    """ids [1, T] with the allowed slots decided whose best token reaches `tau`, and the surest one.

    Args:
        logits: [1, T, V].
        allowed: [1, T] bool, the open slots of the block.
    """
    proposed = logits.argmax(-1)
    probability = F.softmax(logits.float(), -1).gather(-1, proposed[..., None])[..., 0]
    confidence = torch.where(allowed, probability, -torch.inf)
    chosen = confidence >= tau
    chosen[0, confidence[0].argmax()] = True
    return torch.where(chosen, proposed, ids)


@torch.inference_mode()
def decode(
    model: PlainLLaDA, prompt: list[int], *, length: int, block_length: int, tau: float, cache: str
) -> tuple[list[int], int]:
    """The answer and the number of passes; `cache` is none, prefix or dual."""
    mask = model.sizes.mask_id
    ids = torch.tensor([prompt + [mask] * length])
    end, passes = ids.shape[1], 0
    for first in range(len(prompt), end, block_length):
        last = first + block_length
        past: KeyValues | None = None
        while (ids[0, first:last] == mask).any():
            start = 0 if past is None else first
            stop = last if past is not None and cache == "dual" else end
            replaced = slice(first, last) if cache == "dual" else None
            logits, kept = model(ids[:, start:stop], start, past, replaced)
            logits[..., mask] = -torch.inf
            allowed = ids[:, start:stop] == mask
            allowed[:, last - start :] = False
            ids[:, start:stop] = commit(logits, ids[:, start:stop], allowed, tau)
            passes += 1
            if past is None and cache == "prefix":
                past = [(k[:, :, :first], v[:, :, :first]) for k, v in kept]
            elif past is None and cache == "dual":
                past = kept
    return ids[0, len(prompt) :].tolist(), passes
