"""PyTorch's CPU kernel for 4-bit weights, and the inverse of its packing, which it does not offer.

The packing depends on the processor: blocks of 64 outputs where there is AVX-512. Whether it is that is found with a
small matrix; where it is not, the kernel is not used.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

BLOCK = 64
"""Outputs that are packed together: the first half of them in the lower four bits, the other in the upper ones."""


def can_pack(outputs: int) -> bool:
    """Is there a kernel for a matrix of so many outputs?"""
    return outputs % BLOCK == 0 and _is_known()


def packed(levels: Tensor) -> Tensor:
    """[out, in] int32 from 0 to 15 -> [out, in / 2] uint8 as the kernel wants it."""
    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels, 1)


def unpacked(pairs: Tensor) -> Tensor:
    """The levels again, [out, in] uint8."""
    blocks = pairs.view(pairs.shape[0] // BLOCK, -1, BLOCK // 2)  # [blocks, in, half a block]
    return torch.cat([blocks & 15, blocks >> 4], 2).transpose(1, 2).flatten(0, 1)


def product(x: Tensor, pairs: Tensor, group: int, scales: Tensor) -> Tensor:
    """x [n, in] bfloat16 -> [n, out] bfloat16.

    Args:
        scales: [in / group, out, 2] bfloat16, scales and middles.
    """
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, pairs, group, scales)


@functools.cache
def _is_known() -> bool:
    levels = torch.arange(BLOCK * 2 * 32, dtype=torch.int32).mul(7).remainder(16).view(-1, 32)
    try:
        return torch.equal(unpacked(packed(levels)).int(), levels)
    except (AttributeError, RuntimeError):
        return False
