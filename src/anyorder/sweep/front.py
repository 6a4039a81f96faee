"""Curves of quality over speed: the front, and the area under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise


def aup(points: Sequence[tuple[float, float]], best: float) -> float:
    """Area under the accuracy-parallelism curve.

    With points (ρ, y) by ascending ρ, those more than 5 below the first dropped,
    ρ1 y1 + Σ (ρi - ρi-1) (yi Wi + yi-1 Wi-1) / 2, where W = min(exp(-3 (1 - y / best)), 1). It rewards parallelism
    heavily: read it with the curve.

    Args:
        points: (tokens per forward, accuracy in percent).
        best: the best accuracy on the task over everything that is compared, in percent.
    Source: d3LLM, as its code computes it.
    """
    if not points or best <= 0:
        return 0.0
    ordered = sorted(points)
    kept = [(rho, y) for rho, y in ordered if y >= ordered[0][1] - 5]
    weighted = [(rho, y * min(math.exp(-3 * (1 - y / best)), 1.0)) for rho, y in kept]
    area = kept[0][0] * kept[0][1]
    for (before, low), (rho, high) in pairwise(weighted):
        area += (rho - before) * (low + high) / 2
    return area


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points that none beats in both coordinates, more being better, by ascending first one."""
    order = sorted(range(len(points)), key=lambda index: (-points[index][0], -points[index][1]))
    kept: list[int] = []
    for index in order:
        if not kept or points[index][1] > points[kept[-1]][1]:
            kept.append(index)
    return kept[::-1]
