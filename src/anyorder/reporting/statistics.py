"""Figures with what is needed to believe them: how many samples, and an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

RESAMPLES = 2000
FLIPS = 4000
LEVEL = 0.95
DEVIATIONS = 1.959964
"""Of a normal distribution, between which 95 % of it lie."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure of a sample of documents; the interval is the 95 % bootstrap over documents."""

    value: float
    low: float
    high: float
    documents: int
    tokens: int
    """What the documents were weighted with; 0 where each counts once."""


def pooled(parts: Sequence[tuple[float, float]]) -> Estimate | None:
    """Σ numerators / Σ denominators of documents, for example nats per token; None without anything to divide by.

    Source: B. Efron, 1979 (percentile bootstrap); documents are drawn, not tokens, as those of one are not independent.
    """
    parts = [part for part in parts if part[1]]
    if not parts:
        return None
    above, below = torch.tensor(parts, dtype=torch.float64).unbind(1)
    drawn = _drawn(len(parts))
    low, high = _interval(above[drawn].sum(1) / below[drawn].sum(1))
    return Estimate(
        value=float(above.sum() / below.sum()), low=low, high=high, documents=len(parts), tokens=int(below.sum())
    )


def proportion(right: int, count: int) -> Estimate:
    """A share of right ones with its 95 % interval, which has a width also where all are right. Source: E. B. Wilson,
    1927."""
    z, n, p = DEVIATIONS, count, right / count
    middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    low, high = max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))
    return Estimate(value=p, low=low, high=high, documents=count, tokens=0)


def median(values: Sequence[float]) -> Estimate | None:
    """The median of one figure per document; None without any."""
    if not values:
        return None
    sample = torch.tensor(values, dtype=torch.float64)
    low, high = _interval(sample[_drawn(len(values))].quantile(0.5, dim=1))
    return Estimate(value=float(sample.quantile(0.5)), low=low, high=high, documents=len(values), tokens=0)


def exponential(estimate: Estimate | None) -> Estimate | None:
    """Nats per token -> perplexity."""
    if estimate is None:
        return None
    value, low, high = torch.tensor([estimate.value, estimate.low, estimate.high], dtype=torch.float64).exp().tolist()
    return Estimate(value=value, low=low, high=high, documents=estimate.documents, tokens=estimate.tokens)


def _drawn(count: int) -> Tensor:
    """[RESAMPLES, count] indices, the same for every figure of as many documents."""
    return torch.randint(count, (RESAMPLES, count), generator=torch.Generator().manual_seed(0))


def _interval(values: Tensor) -> tuple[float, float]:
    edge = (1 - LEVEL) / 2
    return float(values.quantile(edge)), float(values.quantile(1 - edge))


def sign_flip(differences: Sequence[float]) -> float:
    """Chance of a mean difference of paired samples at least this far from 0, if either sign were as likely.

    Source: R. A. Fisher, 1935 (permutation test), by drawing; the sample is fixed in advance, not stopped at a result.
    """
    sample = torch.tensor([difference for difference in differences if difference], dtype=torch.float64)
    if not len(sample):
        return 1.0
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (FLIPS, len(sample)), generator=generator, dtype=torch.float64) * 2 - 1
    extreme = (signs @ sample).abs() >= abs(float(sample.sum())) - 1e-9
    return (1 + int(extreme.sum())) / (FLIPS + 1)
