"""Which decided slots to decide anew: pure functions from scores to a boolean mask."""

from __future__ import annotations

from torch import Tensor


def edit(confidence: Tensor, proposed: Tensor, current: Tensor, threshold: float) -> Tensor:
    """Replace every token that the model now reads otherwise and is more than `threshold` sure of.

    Args:
        confidence: [..., L], probability in [0, 1] of the token proposed for each slot.
        proposed, current: [..., L] int64.
        threshold: in [0, 1]; at 0 every other reading is taken, at 1 none.
    Returns:
        [..., L] bool; nothing may be chosen.
    Source: LLaDA2.1, arXiv:2602.08676 (text-to-text editing; its `generate` compares with `>`).
    """
    return (proposed != current) & (confidence > threshold)
