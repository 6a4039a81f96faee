"""Products with weights of 4 bits: a scale and a lowest value for each group of neighbours in a row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.models.quantised import kernel
from anyorder.models.quantised.slices import row_slices

LEVELS = 15
GROUPS = (64, 32)
"""Neighbours that share a scale: the first that divides the width."""
KERNEL_ROWS = 128
"""Rows up to which PyTorch's CPU kernel is faster than turning the matrix back; measured, 1 thread with AMX."""


def group_of(width: int) -> int | None:
    """Neighbours that share a scale in rows of this width; None if none of `GROUPS` divides it."""
    return next((group for group in GROUPS if width % group == 0), None)


def rounded(weight: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix in 4 bits.

    Args:
        weight: [out, in].
    Returns:
        [out, in] int32 from 0 to 15, and [out, in / group] float32 scales and middles: weight = (level - 8) * scale +
        middle, to half a scale.
    """
    grouped = weight.float().unflatten(1, (-1, group))
    low, high = grouped.amin(2), grouped.amax(2)  # `aminmax` takes three times as long as both
    scale = ((high - low) / LEVELS).clamp_min(torch.finfo(torch.float32).tiny)
    levels = (grouped - low[..., None]).div_(scale[..., None]).round_().clamp_(0, LEVELS).to(torch.int32)
    return levels.flatten(1), scale, low + 8 * scale


def packed(levels: Tensor) -> Tensor:
    """[out, in] from 0 to 15 -> [out, in / 2] uint8, two neighbours in a byte."""
    return (levels[:, ::2] << 4 | levels[:, 1::2]).to(torch.uint8)


def unpacked(pairs: Tensor) -> Tensor:
    """The levels again, [out, in] uint8."""
    return torch.stack([pairs >> 4, pairs & 15], -1).flatten(1)


class Int4Linear(nn.Module):
    """Weights in 4 bits, activations as they are. A quarter of the memory of bfloat16, and 1/16 of it for the scales.

    On a CPU that has it, few rows are PyTorch's own kernel, which computes with bfloat16 activations; otherwise the
    matrix is turned back for the product.

    Args:
        weight: [out, in]; `group_of` must know its width. Not kept.
        bias: [out] or None.
    """

    pairs: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor, bias: nn.Parameter | None) -> None:
        super().__init__()
        group = group_of(weight.shape[1])
        assert group is not None, "the loader keeps such a matrix in 8 bits"
        self.group = group
        self.has_kernel = weight.device.type == "cpu" and kernel.can_pack(weight.shape[0])
        outputs, inputs = weight.shape
        self.register_buffer("pairs", weight.new_empty((outputs, inputs // 2), dtype=torch.uint8))
        self.register_buffer("scales", weight.new_empty((inputs // group, outputs, 2), dtype=torch.bfloat16))
        for rows in row_slices(weight):
            levels, scale, middle = rounded(weight[rows], group)
            self.pairs[rows] = kernel.packed(levels) if self.has_kernel else packed(levels)
            self.scales[:, rows] = torch.stack([scale, middle], -1).transpose(0, 1).bfloat16()
        self.bias = bias

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out], in the dtype of x."""
        if self.has_kernel and x.numel() <= KERNEL_ROWS * x.shape[-1]:
            rows = x.reshape(-1, x.shape[-1]).bfloat16()
            y = kernel.product(rows, self.pairs, self.group, self.scales).to(x.dtype).unflatten(0, x.shape[:-1])
        else:
            y = F.linear(x, self.weight(x.dtype))
        return y if self.bias is None else y + self.bias

    def weight(self, dtype: torch.dtype) -> Tensor:
        """[out, in], the matrix that the product is with."""
        levels = kernel.unpacked(self.pairs) if self.has_kernel else unpacked(self.pairs)
        scale, middle = self.scales.to(dtype).unbind(-1)  # [in / group, out] each
        grouped = levels.view(levels.shape[0], -1, self.group).to(dtype)
        return torch.addcmul(middle.t()[..., None], grouped - 8, scale.t()[..., None]).flatten(1)
