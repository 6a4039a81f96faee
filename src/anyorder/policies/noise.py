"""Noise schedules of masked diffusion: the share of masked slots at a time from 0 (clean) to 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Noise = Literal["loglinear", "cosine", "square", "square_root", "log"]

SHARES: dict[Noise, Callable[[float], float]] = {
    "loglinear": lambda t: t,
    "cosine": lambda t: 1 - math.cos(t * math.pi / 2),
    "square": lambda t: t * t,
    "square_root": math.sqrt,
    "log": lambda t: math.log2(1 + t),
}
"""Share of masked slots at time t in [0, 1]; each grows from 0 to 1.

Source: MDLM, arXiv:2406.07524, and BD3-LM, arXiv:2503.09573, without the small number that keeps
their code clear of 0 and 1.
"""


def revealed(noise: Noise, t: float, s: float) -> float:
    """Chance that a slot masked at time t is no longer masked at s < t: 1 - share(s) / share(t), in [0, 1].

    Args:
        t: in (0, 1].
        s: below t; what lies below 0 counts as 0.
    Source: the ancestral step of MDLM, arXiv:2406.07524, equation 7.
    """
    share = SHARES[noise]
    return min(1.0, 1.0 - share(max(s, 0.0)) / share(t))
