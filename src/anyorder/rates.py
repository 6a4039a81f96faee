"""What a device does per second: timed products of matrices."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

SIDE = 2048
"""Of the square matrices whose product is timed."""
SECONDS = 0.2


@torch.no_grad()
def matrix_rate(dtype: torch.dtype, device: torch.device, clock: Callable[[], float] = time.perf_counter) -> float:
    """Operations per second of a large matrix product, the best of what fits into 0.2 seconds of the clock."""
    a, b = (torch.ones(SIDE, SIDE, dtype=dtype, device=device) for _ in range(2))
    return 2.0 * SIDE**3 / best_time(lambda: torch.matmul(a, b), device, seconds=SECONDS, clock=clock)


def best_time(
    act: Callable[[], object],
    device: torch.device,
    *,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The shortest time of `act`, in seconds, of as many runs as fit into `seconds`, at least one behind a first."""
    _timed(act, device, clock)  # the first one may set something up
    best = float("inf")
    until = clock() + seconds
    while best == float("inf") or clock() < until:
        best = min(best, _timed(act, device, clock))
    return best


def _timed(act: Callable[[], object], device: torch.device, clock: Callable[[], float]) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begun = clock()
    act()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - begun
