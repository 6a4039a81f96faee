"""Matrix products: `Linear` trains and runs anywhere, `PackedLinear` is faster on a CPU at few rows and only infers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACK_ROWS = 32
"""Rows that oneDNN lays the weight out for; measured to serve 1 to 256 rows equally well."""


class Linear(nn.Module):
    """x [..., in] -> [..., out]; the parameters are uninitialised until a loader or a trainer fills them."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear(nn.Module):
    """The same product with the weight in oneDNN's own blocked layout; CPU, float32 or bfloat16, no gradients.

    The layout is opaque: the weight is in no state dict and cannot be moved or converted.

    Args:
        weight: [out, in]; may be a memory-mapped view, it is read once and not kept.
        bias: [out] or None.
    """

    def __init__(self, weight: Tensor, bias: nn.Parameter | None) -> None:
        super().__init__()
        self.bias = bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)
        self.product = torch.ops.mkldnn._linear_pointwise.default

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, self.packed, self.bias, "none", [], "")


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Is `PackedLinear` usable for this device and dtype in this build of PyTorch?"""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return False
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    return torch.backends.mkldnn.is_available() and known
