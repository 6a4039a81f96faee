"""Uniform diffusion: when a canvas of noise counts as clean, and at which temperature it is read."""

from __future__ import annotations

import torch
from torch import Tensor


def temperature(step: int, steps: int, t_min: float, t_max: float) -> float:
    """Temperature of pass `step`, counted from 0, of `steps`: from `t_max` down towards `t_min`.

    Source: DiffusionGemma, transformers' `LinearTemperatureScheduleLogitsProcessor`.
    """
    return t_min + (t_max - t_min) * ((steps - step) / steps)


def settled(best: Tensor, before: list[Tensor], entropy: Tensor, stability: int, confidence: float) -> bool:
    """A canvas is clean when its best tokens are those of the last `stability` passes and it is sure of them.

    Args:
        best: [L] int64, the best token of every slot.
        before: those of earlier passes, the latest last.
        entropy: [L] float, nats.
        stability: passes; 0 asks for none.
        confidence: the mean entropy must be below this.
    Source: DiffusionGemma, transformers' `StableAndConfidentStoppingCriteria`.
    """
    last = before[len(before) - stability :] if stability else []
    stable = len(last) == stability and all(torch.equal(best, other) for other in last)
    return stable and float(entropy.mean()) < confidence


def noise(uniform: Tensor, vocab_size: int) -> Tensor:
    """Tokens drawn from the whole vocabulary: numbers in [0, 1) -> ids, int64."""
    return (uniform * vocab_size).long().clamp_max(vocab_size - 1)
