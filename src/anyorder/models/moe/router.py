"""Which experts a token goes to, and with which weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.errors import ModelError
from anyorder.models.moe.config import MoeConfig

TINY = 1e-20
"""Keeps a sum of underflowed scores from dividing by zero."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Which tokens of a pass choose among the same experts."""

    index: Tensor  # [T] int64, the block of every token
    count: int  # of blocks

    @classmethod
    def of(cls, positions: Sequence[Tensor], length: int, device: torch.device) -> Blocks:
        """Blocks of packed sequences.

        Args:
            positions: of every sequence, [T_i] int64 on the CPU, whole blocks of it.
            length: tokens of a block, counted from position 0.
        """
        index, count = list[Tensor](), 0
        for own in positions:
            blocks = own // length - own[0] // length + count
            count = int(blocks[-1]) + 1
            index.append(blocks)
        return cls(torch.cat(index).to(device, non_blocking=True), count)


def route(
    x: Tensor, router: Tensor, bias: Tensor | None, moe: MoeConfig, blocks: Blocks | None = None
) -> tuple[Tensor, Tensor]:
    """Experts and weights of every token, computed in float32 (float64 for a float64 network).

    Args:
        x: [T, hidden].
        router: [E, hidden].
        bias: [E], added to the scores that choose; None: nothing is added.
        blocks: of all T tokens; needed where `moe.block_experts` is set, and not read elsewhere.
    Returns:
        experts [T, k] int64 in no particular order, and their weights [T, k].
    Source: softmax: OLMoE and Qwen3-MoE; sigmoid, bias and groups: DeepSeek-V3, arXiv:2412.19437 section 2.1.2;
        blocks: LLaDA2.2's router (groups are not read there).
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    logits = F.linear(x.to(wide), router.to(wide))
    scores = logits.softmax(-1) if moe.score == "softmax" else logits.sigmoid()
    ranked = scores if bias is None else scores + bias.to(wide)
    experts = _eligible(ranked, moe, blocks).topk(moe.top_k, sorted=False).indices
    weights = (ranked if moe.biased_weights else scores).gather(-1, experts)
    if moe.normalise:
        weights = weights / (weights.sum(-1, keepdim=True) + TINY)
    return experts, weights * moe.scaling


def _eligible(ranked: Tensor, moe: MoeConfig, blocks: Blocks | None) -> Tensor:
    """Scores [T, E] with -inf where a token may not go."""
    if moe.block_experts is not None:
        if blocks is None:
            raise ModelError(
                "tokens of this network share experts by block (LLaDA2.2), which training and scoring do not know"
            )
        return _among_shared(ranked, moe.block_experts, blocks)
    return ranked if moe.num_groups == 1 else _in_best_groups(ranked, moe)


def _among_shared(ranked: Tensor, number: int, blocks: Blocks) -> Tensor:
    """Only the `number` experts whose best score over the block's tokens is highest."""
    index = blocks.index[:, None].expand_as(ranked)
    best = ranked.new_full((blocks.count, ranked.shape[1]), -torch.inf).scatter_reduce(0, index, ranked, "amax")
    shared = torch.zeros_like(best, dtype=torch.bool).scatter_(-1, best.topk(number, sorted=False).indices, True)
    return ranked.masked_fill(~shared[blocks.index], -torch.inf)


def _in_best_groups(ranked: Tensor, moe: MoeConfig) -> Tensor:
    """Scores [T, E] with -inf outside of the groups whose two best experts score highest together."""
    grouped = ranked.unflatten(-1, (moe.num_groups, -1))  # [T, G, E / G]
    best = grouped.topk(2).values.sum(-1).topk(moe.top_groups, sorted=False).indices  # [T, top_groups]
    kept = torch.zeros(grouped.shape[:2], dtype=torch.bool, device=ranked.device).scatter_(-1, best, True)
    return grouped.masked_fill(~kept[..., None], -torch.inf).flatten(-2)
