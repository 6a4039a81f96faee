"""RMS norm, with a short cut for one row and a backward pass of its own on a CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.models.rows import in_cache


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension.

    On a CPU PyTorch runs ten kernels for it, which at one token per pass cost more than their arithmetic. Layer norm is
    one kernel, and that of (x, -x) is the same thing: its mean is 0 and its variance the mean square of x.

    Args:
        x: [T, d] or [T, H, d].
        weight: [d].
    """
    width = x.shape[-1]
    if x.device.type == "cpu" and torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        return _RMSNorm.apply(x, weight, eps)
    if x.device.type != "cpu" or x.shape[0] > 1:
        return F.rms_norm(x, (width,), weight, eps)
    return F.layer_norm(torch.cat((x, -x), -1), (2 * width,), None, None, eps).narrow(-1, 0, width) * weight


class _RMSNorm(torch.autograd.Function):
    """Keeps x alone. With r = 1 / sqrt(mean(x²) + eps) and u = gradient · weight:
    dx = r (u - x r² mean(u x)), dweight = Σ gradient · x r."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        result = torch.empty_like(x)
        for rows, out in zip(in_cache(x), in_cache(result), strict=True):
            out.copy_(F.rms_norm(rows, weight.shape, weight, eps))
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wide = torch.promote_types(x.dtype, torch.float32)
        for_x, for_weight = torch.empty_like(x), torch.zeros_like(weight, dtype=wide)
        for rows, gradient, out in zip(in_cache(x), in_cache(grad_outputs[0]), in_cache(for_x), strict=True):
            y, u = rows.to(wide, copy=True), gradient.to(wide, copy=True)
            r = y.square().mean(-1, keepdim=True).add_(ctx.eps).rsqrt_()
            y.mul_(r)
            if ctx.needs_input_grad[1]:
                for_weight += (u * y).flatten(0, -2).sum(0)
            u.mul_(weight)
            out.copy_(u.sub_(y * (u * y).mean(-1, keepdim=True)).mul_(r))
        return for_x, for_weight.to(weight.dtype) if ctx.needs_input_grad[1] else None, None
