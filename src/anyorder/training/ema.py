"""The exponential moving average of the trained parameters, which is what is published if there is one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from anyorder.training.shards import local


class Average:
    """a_n = d a_{n-1} + (1 - d) p_n, from a_0 = p_0 on; float32.

    While there are few steps d is (1 + n) / (10 + n) if that is less, so that the beginning is forgotten soon.

    Args:
        parameters: what is averaged.
        decay: d, in (0, 1).
    Source: the warm-up is TensorFlow's (ExponentialMovingAverage, num_updates).
    """

    def __init__(self, parameters: Mapping[str, Tensor], decay: float) -> None:
        self.parameters = parameters
        self.decay = decay
        self.values = {name: value.detach().to(torch.float32, copy=True) for name, value in parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the parameters in after step number `step`; the first one is 1."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in self.parameters.items():
            local(self.values[name]).lerp_(local(value.detach()).to(torch.float32), 1 - decay)
