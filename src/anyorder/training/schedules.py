"""Learning rates over a run: pure functions from the number of a step to a factor of the peak."""

from __future__ import annotations

import math
from typing import Literal

ScheduleName = Literal["cosine", "wsd", "constant"]


def warmed(step: int, warmup: int) -> float:
    """1/warmup at step 0, rising in a line to 1 at step warmup - 1 and 1 from there on; warmup 0: always 1."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def cosine(step: int, *, steps: int, warmup: int, floor: float) -> float:
    """Warm-up, then half a cosine from 1 down to `floor`, which the step behind the last one would have.

    Args:
        step: 0 for the first one.
        steps: of the whole run.
        warmup: steps of the warm-up.
        floor: in [0, 1].
    Source: SGDR, arXiv:1608.03983, without restarts.
    """
    progress = (step - warmup) / max(1, steps - warmup)
    factor = floor + (1 - floor) * (1 + math.cos(math.pi * min(1.0, max(0.0, progress)))) / 2
    return warmed(step, warmup) * factor


def wsd(step: int, *, steps: int, warmup: int, decay: int, floor: float) -> float:
    """Warm-up, stable, decay: 1 until the last `decay` steps, which go down as 1 - √progress.

    A run that is stopped in its stable part can be made longer without regret: only the decay is tied to its end.

    Args:
        decay: steps of the decay; the others as in `cosine`.
    Source: MiniCPM, arXiv:2404.06395; the shape of the decay is arXiv:2405.18392's.
    """
    into = step - (steps - decay) + 1  # 1 at the first step of the decay, `decay` at the last step of the run
    factor = 1.0 if into <= 0 else floor + (1 - floor) * (1 - math.sqrt(into / (decay + 1)))
    return warmed(step, warmup) * factor
