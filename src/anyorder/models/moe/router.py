"""Which experts a token goes to, and with which weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.models.moe.config import MoeConfig

TINY = 1e-20
"""Keeps a sum of underflowed scores from dividing by zero."""


def route(x: Tensor, router: Tensor, bias: Tensor | None, moe: MoeConfig) -> tuple[Tensor, Tensor]:
    """Experts and weights of every token, computed in float32 (float64 for a float64 network).

    Args:
        x: [T, hidden].
        router: [E, hidden].
        bias: [E], added to the scores that choose; None: nothing is added.
    Returns:
        experts [T, k] int64 in no particular order, and their weights [T, k].
    Source: softmax: OLMoE and Qwen3-MoE; sigmoid, bias and groups: DeepSeek-V3, arXiv:2412.19437 section 2.1.2.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = F.linear(x.to(wide), router.to(wide))
    scores = logits.softmax(-1) if moe.score == "softmax" else logits.sigmoid()
    ranked = scores if bias is None else scores + bias.to(wide)
    eligible = ranked if moe.num_groups == 1 else _in_best_groups(ranked, moe)
    experts = eligible.topk(moe.top_k, sorted=False).indices
    weights = (ranked if moe.biased_weights else scores).gather(-1, experts)
    if moe.normalise:
        weights = weights / (weights.sum(-1, keepdim=True) + TINY)
    return experts, weights * moe.scaling


def _in_best_groups(ranked: Tensor, moe: MoeConfig) -> Tensor:
    """Scores [T, E] with -inf outside of the groups whose two best experts score highest together."""
    grouped = ranked.unflatten(-1, (moe.num_groups, -1))  # [T, G, E / G]
    best = grouped.topk(2).values.sum(-1).topk(moe.top_groups, sorted=False).indices  # [T, top_groups]
    kept = torch.zeros(grouped.shape[:2], dtype=torch.bool, device=ranked.device).scatter_(-1, best, True)
    return grouped.masked_fill(~kept[..., None], -torch.inf).flatten(-2)
