"""Products with weights of 8 bits: one scale per output, symmetric, the largest number of a row is 127."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.quantised.slices import row_slices

LEVELS = 127
KERNEL_ROWS = 4
"""Rows up to which PyTorch's CPU kernel is faster than turning the matrix back; measured, 1 thread with AMX."""
KERNEL_WIDTH = 16
"""The width must be a multiple of this: beyond the last whole one that kernel reads and writes what is not its own."""
CUDA_ROWS = 32
"""`_int_mm` wants more than 16 rows there, and a multiple of 8."""


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix in 8 bits.

    Args:
        weight: [out, in].
    Returns:
        [out, in] int8, and [out] float32 scales: weight = int8 * scale, to half a scale.
    """
    values = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scale = torch.empty(weight.shape[0], device=weight.device)
    for rows in row_slices(weight):
        part = weight[rows].to(torch.float32, copy=True)
        scale[rows] = part.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / LEVELS
        values[rows] = part.div_(scale[rows, None]).round_().to(torch.int8)
    return values, scale


class _Rounded(nn.Module):
    """A matrix in 8 bits.

    Args:
        weight: [out, in]; not kept.
        bias: [out] or None.
    """

    values: Tensor
    scale: Tensor

    def __init__(self, weight: Tensor, bias: nn.Parameter | None) -> None:
        super().__init__()
        values, scale = rounded(weight)
        self.register_buffer("values", values)
        self.register_buffer("scale", scale)
        self.bias = bias


class Int8Linear(_Rounded):
    """Weights in 8 bits, activations as they are. Half the memory of bfloat16; faster where reading is the limit.

    On a CPU few rows are PyTorch's own kernel, which computes with bfloat16 activations; otherwise the matrix is turned
    back for the product.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out], in the dtype of x."""
        width = x.shape[-1]
        if x.device.type == "cpu" and x.numel() <= KERNEL_ROWS * width and width % KERNEL_WIDTH == 0:
            rows = x.reshape(-1, x.shape[-1]).bfloat16()
            y = torch.ops.aten._weight_int8pack_mm(rows, self.values, self.scale.bfloat16()).to(x.dtype)
            y = y.unflatten(0, x.shape[:-1])
        else:
            y = F.linear(x, self.values.to(x.dtype)) * self.scale.to(x.dtype)
        return y if self.bias is None else y + self.bias


class Int8DynamicLinear(_Rounded):
    """Weights and activations in 8 bits, the latter with a scale per row found on the way: the product is of integers.

    Integers add up exactly, so a row's result does not depend on how many rows are computed with it.
    """

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out], in the dtype of x; the scales are applied in float32."""
        rows = x.reshape(-1, x.shape[-1]).float()
        own = rows.abs().amax(1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny) / LEVELS
        y = _integer_product((rows / own).round().to(torch.int8), self.values).float().mul_(own).mul_(self.scale)
        y = y.to(x.dtype).view(*x.shape[:-1], self.values.shape[0])
        return y if self.bias is None else y + self.bias


def _integer_product(x: Tensor, values: Tensor) -> Tensor:
    """[n, in] and [out, in] int8 -> [n, out] int32."""
    if x.device.type == "cpu":
        return torch.ops.aten._int_mm(x, values.t()) if x.shape[0] else x.new_empty((0, len(values)), dtype=torch.int32)
    padding = -x.shape[0] % 8 if x.shape[0] > CUDA_ROWS else CUDA_ROWS - x.shape[0]
    return torch.ops.aten._int_mm(F.pad(x, (0, 0, 0, padding)), values.t())[: x.shape[0]]
