"""What `reasoning_effort` means: whether and how long the model reasons, and how sure a commit has to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from anyorder.params import KNOBS, DecodeParams

Level = Literal["none", "minimal", "instant", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class Effort:
    """One level."""

    thinks: bool
    """The reasoning channel is on."""
    share: float | None
    """Part of the longest answer that may be reasoning; None: all of it."""
    threshold: float
    """Commit proposals at least this sure, where the policy in use has a threshold and nobody has set one."""


EFFORTS: Mapping[Level, Effort] = {
    "none": Effort(thinks=False, share=None, threshold=0.8),
    "minimal": Effort(thinks=False, share=None, threshold=0.8),
    "instant": Effort(thinks=False, share=None, threshold=0.8),
    "low": Effort(thinks=True, share=0.2, threshold=0.85),
    "medium": Effort(thinks=True, share=0.5, threshold=0.9),
    "high": Effort(thinks=True, share=0.8, threshold=0.95),
    "xhigh": Effort(thinks=True, share=0.95, threshold=0.98),
    "max": Effort(thinks=True, share=None, threshold=1.0),
}
"""OpenAI's levels and Inception's `instant`; shares and thresholds are ours, the latter around the published 0.9."""


def preset(effort: Effort, params: DecodeParams, *, reads_threshold: bool) -> dict[str, float]:
    """Decode parameters of a level.

    Args:
        params: what request and server say of decoding; who set one of `KNOBS` has chosen how sure to be.
        reads_threshold: the policy in use commits by a threshold.
    """
    chosen = any(getattr(params, name) is not None for name in KNOBS)
    return {} if chosen or not reads_threshold else {"threshold": effort.threshold}
