"""An MLP of many experts: the tokens of a pass are sorted by expert, and every expert hit is one product."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.linear import Linear
from anyorder.models.moe.config import MoeConfig
from anyorder.models.moe.router import Blocks, route

GROUPED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GROUPED_ALIGNMENT = 16
"""Bytes that the rows of a grouped product's matrices must be a multiple of."""


class SparseMLP(nn.Module):
    """Routed experts and the shared ones, each SwiGLU; the parameters are uninitialised until loaded.

    The matrices of all experts are one parameter each, so that a pass is two grouped products, whatever the number of
    experts.
    """

    def __init__(self, hidden: int, moe: MoeConfig) -> None:
        super().__init__()
        self.moe = moe
        self.router = nn.Parameter(torch.empty(moe.num_experts, hidden))
        self.bias = nn.Parameter(torch.empty(moe.num_experts)) if moe.bias else None
        self.gate_up = nn.Parameter(torch.empty(moe.num_experts, 2 * moe.expert_size, hidden))
        self.down = nn.Parameter(torch.empty(moe.num_experts, hidden, moe.expert_size))
        self.shared_gate_up = Linear(hidden, 2 * moe.shared_size) if moe.shared_size else None
        self.shared_down = Linear(moe.shared_size, hidden) if moe.shared_size else None

    def forward(self, x: Tensor, blocks: Blocks | None = None) -> Tensor:
        """x [T, hidden] -> [T, hidden]; `blocks` as in `route`."""
        experts, weights = route(x, self.router, self.bias, self.moe, blocks)
        mixed = mix(x, experts, weights, self.gate_up, self.down)
        if self.shared_gate_up is None or self.shared_down is None:
            return mixed
        return mixed + self.shared_down(_gated(self.shared_gate_up(x)))


def mix(x: Tensor, experts: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The weighted sum of every token's experts.

    Args:
        x: [T, hidden].
        experts: [T, k] int64.
        weights: [T, k] float.
        gate_up: [E, 2 * inner, hidden], the gate's rows first.
        down: [E, hidden, inner].
    Returns:
        [T, hidden] in the dtype of x.
    """
    flat = experts.flatten()
    order = flat.argsort(stable=True)  # pairs of token and expert, sorted by expert
    counts = flat.bincount(minlength=gate_up.shape[0])
    product = _grouped if can_group(x, gate_up, down) else _one_by_one
    mixed = product(x[order // experts.shape[1]], counts, gate_up, down)
    own = torch.empty_like(mixed).index_copy(0, order, mixed).view(*experts.shape, -1)  # [T, k, hidden]
    return (own * weights.to(own.dtype)[..., None]).sum(1)


def can_group(x: Tensor, *matrices: Tensor) -> bool:
    """Can an accelerator compute the products of all experts in one kernel, without asking how many rows each has?"""
    aligned = all(matrix.shape[-1] * matrix.element_size() % GROUPED_ALIGNMENT == 0 for matrix in matrices)
    return x.device.type == "cuda" and x.dtype in GROUPED_DTYPES and aligned


def _grouped(rows: Tensor, counts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """[n, hidden] rows sorted by expert -> [n, hidden]; `counts` [E] stay on the device."""
    ends = counts.cumsum(0, dtype=torch.int32)
    inner = _gated(F.grouped_mm(rows, gate_up.mT, offs=ends))
    return F.grouped_mm(inner, down.mT, offs=ends)


def _one_by_one(rows: Tensor, counts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The same, one product after the other for the experts that have rows."""
    hit = counts.nonzero().flatten()
    parts = zip(hit.tolist(), rows.split_with_sizes(counts[hit].tolist()), strict=True)
    return torch.cat([F.linear(_gated(F.linear(part, gate_up[e])), down[e]) for e, part in parts])


def _gated(gate_up: Tensor) -> Tensor:
    """SwiGLU without its matrices: [..., 2 * inner] -> [..., inner]."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up
