"""What `reasoning_effort` means: whether the model reasons before it answers, and how sure a commit has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Level = Literal["none", "minimal", "instant", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class Effort:
    """One level."""

    thinks: bool
    """The reasoning channel is on."""
    threshold: float
    """Commit proposals at least this sure, where the policy in use has a threshold and the request names none."""


EFFORTS: Mapping[Level, Effort] = {
    "none": Effort(thinks=False, threshold=0.8),
    "minimal": Effort(thinks=False, threshold=0.8),
    "instant": Effort(thinks=False, threshold=0.8),
    "low": Effort(thinks=True, threshold=0.85),
    "medium": Effort(thinks=True, threshold=0.9),
    "high": Effort(thinks=True, threshold=0.95),
    "xhigh": Effort(thinks=True, threshold=0.98),
    "max": Effort(thinks=True, threshold=1.0),
}
"""OpenAI's levels and Inception's `instant`; the thresholds are ours, around the published 0.9."""

DECODE_FIELDS = ("mode", "policy", "steps", "threshold", "factor", "entropy_bound", "alg_temp", "eps")
"""Who names one of these has chosen how to decode; the level then only says whether the model reasons."""


def preset(effort: Effort, *, named: Mapping[str, Any], reads_threshold: bool) -> dict[str, float]:
    """Decode parameters of a level.

    Args:
        named: what the request says of decoding.
        reads_threshold: the policy in use commits by a threshold.
    """
    chosen = any(name in named for name in DECODE_FIELDS)
    return {} if chosen or not reads_threshold else {"threshold": effort.threshold}
