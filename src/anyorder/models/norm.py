"""RMS norm, with a short cut for one row."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension.

    On a CPU PyTorch runs ten kernels for it, which at one token per pass cost more than their arithmetic. Layer norm is
    one kernel, and that of (x, -x) is the same thing: its mean is 0 and its variance the mean square of x.

    Args:
        x: [T, d] or [T, H, d].
        weight: [d].
    """
    width = x.shape[-1]
    if x.shape[0] > 1 or x.device.type != "cpu":
        return F.rms_norm(x, (width,), weight, eps)
    return F.layer_norm(torch.cat((x, -x), -1), (2 * width,), None, None, eps).narrow(-1, 0, width) * weight
