"""How far cached logits are from those of a pass without cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences of logits, cached against uncached, over all rows measured so far."""

    rows: int = 0
    max_abs: float = 0.0
    mean_abs: float = 0.0

    def add(self, cached: Tensor, exact: Tensor) -> Drift:
        """Include another pass: both [R, V]; entries that are infinite in either are left out."""
        difference = (cached.double() - exact.double()).abs()
        difference = difference[torch.isfinite(difference)]
        if not difference.numel():
            return self
        rows = self.rows + cached.shape[0]
        share = cached.shape[0] / rows
        return Drift(
            rows=rows,
            max_abs=max(self.max_abs, float(difference.max())),
            mean_abs=self.mean_abs * (1 - share) + float(difference.mean()) * share,
        )
