"""The network of MDLM and BD3-LM: layer norms scaled and shifted by the noise level, GELU, rotary positions.

All published checkpoints were trained without being told the noise level (`time_conditioning` false): it is 0 in every
pass, so one vector modulates all tokens. Source: MDLM, arXiv:2406.07524; DiT, arXiv:2212.09748.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.dit.config import SIGMA_FEATURES, DiTConfig
from anyorder.models.linear import Linear
from anyorder.models.moe import Blocks
from anyorder.models.rope import rotate, rotation
from anyorder.models.transformer import Attend, Changes, Transformer


class DiTLayer(nn.Module):
    """Attention and MLP, each behind a modulated norm and in front of a gate."""

    def __init__(self, config: DiTConfig, index: int) -> None:
        super().__init__()
        hidden, inner = config.hidden_size, config.intermediate_size
        self.index = index
        self.eps = config.rms_norm_eps
        self.heads = (config.num_heads, config.head_dim)
        self.attention_norm = nn.Parameter(torch.ones(hidden))
        self.qkv = Linear(hidden, 3 * hidden)
        self.out = Linear(hidden, hidden)
        self.mlp_norm = nn.Parameter(torch.ones(hidden))
        self.up = Linear(hidden, inner, bias=True)
        self.down = Linear(inner, hidden, bias=True)
        self.modulation = Linear(config.cond_dim, 6 * hidden, bias=True)

    def forward(
        self, x: Tensor, noise: Tensor, cos: Tensor, sin: Tensor, attend: Attend, rows: Tensor | None
    ) -> Tensor:
        """x [T, hidden], noise [1, cond] -> [T, hidden], or [R, hidden] when only `rows` are wanted."""
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = self.modulation(noise)[0].chunk(6)
        normed = modulated(x, self.attention_norm, shift, scale, self.eps)
        q, k, v = self.qkv(normed).view(x.shape[0], 3, *self.heads).unbind(1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if rows is not None:
            q, x = q[rows], x[rows]
        mixed = attend(self.index, q, k, v)
        if not x.shape[0]:
            return x
        x = x + gate * self.out(mixed.reshape(x.shape[0], -1))
        normed = modulated(x, self.mlp_norm, mlp_shift, mlp_scale, self.eps)
        return x + mlp_gate * self.down(F.gelu(self.up(normed), approximate="tanh"))


class DiT(Transformer):
    """Token ids to hidden states, hidden states to logits; see `Transformer`."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__(config)
        hidden, cond = config.hidden_size, config.cond_dim
        self.layers = nn.ModuleList(DiTLayer(config, index) for index in range(config.num_layers))
        self.output = Linear(hidden, config.vocab_size, bias=True)
        self.sigma_in = Linear(SIGMA_FEATURES, cond, bias=True)
        self.sigma_out = Linear(cond, cond, bias=True)
        self.modulation = Linear(cond, 2 * hidden, bias=True)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        rows: Tensor | None = None,
        adapted: Changes | None = None,
        blocks: Blocks | None = None,
    ) -> Tensor:
        """See `Transformer.forward`; there are no adapters for this network, and no experts."""
        assert adapted is None, "loading refuses adapters for this network"
        x, noise = self.embed(ids), self._noise()
        cos, sin = rotation(self.config, positions, x.dtype)
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            x = layer(x, noise, cos, sin, attend, rows if index == last else None)
        shift, scale = self.modulation(noise)[0].chunk(2)
        return modulated(x, self.norm, shift, scale, self.config.rms_norm_eps)

    def _noise(self) -> Tensor:
        """[1, cond]: what noise level 0 becomes; its cosines are 1 and its sines 0."""
        features = torch.zeros(1, SIGMA_FEATURES, dtype=self.dtype, device=self.device)
        features[:, : SIGMA_FEATURES // 2] = 1
        return F.silu(self.sigma_out(F.silu(self.sigma_in(features))))


def modulated(x: Tensor, weight: Tensor, shift: Tensor, scale: Tensor, eps: float) -> Tensor:
    """Layer norm without bias, then · (1 + scale) + shift; x [T, d], the others [d]."""
    return F.layer_norm(x, weight.shape, weight * (1 + scale), shift, eps)
