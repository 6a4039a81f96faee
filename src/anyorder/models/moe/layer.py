"""An MLP of many experts: the tokens of a pass are sorted by expert, and every expert hit is one product."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.linear import Linear
from anyorder.models.moe.config import MoeConfig
from anyorder.models.moe.router import Blocks, route

GROUPED_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
GROUPED_ALIGNMENT = 16
"""Bytes that the rows of a grouped product's matrices must be a multiple of."""

GROUPED_CAPABILITY = (8, 0)
"""Of the oldest GPU that groups: Ampere."""

Activation = Callable[[Tensor], Tensor]
Matrices = Tensor | nn.ModuleList
"""Of all experts, [E, out, in]; or a product for each, as quantised ones are."""


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
        self.gate_up: Matrices = nn.Parameter(torch.empty(moe.num_experts, 2 * moe.expert_size, hidden))
        self.down: Matrices = nn.Parameter(torch.empty(moe.num_experts, hidden, moe.expert_size))
        self.shared_gate_up = Linear(hidden, 2 * moe.shared_size) if moe.shared_size else None
        self.shared_down = Linear(moe.shared_size, hidden) if moe.shared_size else None

    def forward(self, x: Tensor, blocks: Blocks | None = None) -> Tensor:
        """x [T, hidden] -> [T, hidden]; `blocks` as in `route`."""
        experts, weights = route(x, self.router, self.bias, self.moe, blocks)
        mixed = mix(x, experts, weights, self.gate_up, self.down)
        if self.shared_gate_up is None or self.shared_down is None:
            return mixed
        return mixed + self.shared_down(_gated(self.shared_gate_up(x)))


def mix(
    x: Tensor,
    experts: Tensor,
    weights: Tensor,
    gate_up: Matrices,
    down: Matrices,
    *,
    activation: Activation = F.silu,
) -> Tensor:
    """The weighted sum of every token's experts.

    Args:
        x: [T, hidden].
        experts: [T, k] int64.
        weights: [T, k] float.
        gate_up: [E, 2 * inner, hidden], the gate's rows first; or a product for each expert.
        down: [E, hidden, inner].
        activation: of the gate.
    Returns:
        [T, hidden] in the dtype of x.
    """
    flat = experts.flatten()
    order = flat.argsort(stable=True)  # pairs of token and expert, sorted by expert
    counts = flat.bincount(minlength=len(gate_up))
    rows = x[order // experts.shape[1]]
    if isinstance(gate_up, Tensor) and isinstance(down, Tensor) and can_group(x, gate_up, down):
        mixed = _grouped(rows, counts, gate_up, down, activation)
    else:
        mixed = _one_by_one(rows, counts, gate_up, down, activation)
    own = torch.empty_like(mixed).index_copy(0, order, mixed).view(*experts.shape, -1)  # [T, k, hidden]
    return (own * weights.to(own.dtype)[..., None]).sum(1)


def can_group(x: Tensor, *matrices: Tensor) -> bool:
    """Can an accelerator compute the products of all experts in one kernel, without asking how many rows each has?"""
    if x.device.type != "cuda" or x.dtype not in GROUPED_DTYPES:
        return False
    aligned = all(matrix.shape[-1] * matrix.element_size() % GROUPED_ALIGNMENT == 0 for matrix in matrices)
    return aligned and torch.cuda.get_device_capability(x.device) >= GROUPED_CAPABILITY


def _grouped(rows: Tensor, counts: Tensor, gate_up: Tensor, down: Tensor, activation: Activation) -> Tensor:
    """[n, hidden] rows sorted by expert -> [n, hidden]; `counts` [E] stay on the device."""
    ends = counts.cumsum(0, dtype=torch.int32)
    inner = _gated(F.grouped_mm(rows, gate_up.mT, offs=ends), activation)
    return F.grouped_mm(inner, down.mT, offs=ends)


def _one_by_one(rows: Tensor, counts: Tensor, gate_up: Matrices, down: Matrices, activation: Activation) -> Tensor:
    """The same, one product after the other for the experts that have rows."""
    hit = counts.nonzero().flatten()
    parts = zip(hit.tolist(), rows.split_with_sizes(counts[hit].tolist()), strict=True)
    return torch.cat([_product(_gated(_product(part, gate_up, e), activation), down, e) for e, part in parts])


def _product(x: Tensor, matrices: Matrices, expert: int) -> Tensor:
    return F.linear(x, matrices[expert]) if isinstance(matrices, Tensor) else matrices[expert](x)


def _gated(gate_up: Tensor, activation: Activation = F.silu) -> Tensor:
    """SwiGLU without its matrices, or with another activation: [..., 2 * inner] -> [..., inner]."""
    gate, up = gate_up.chunk(2, -1)
    return activation(gate) * up
