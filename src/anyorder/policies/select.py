"""Which proposals to commit: pure functions from scores to a boolean mask.

Every function takes a score per slot, [..., L] float, and `open`, [..., L] bool, and returns a subset of `open`,
[..., L] bool, with at least one True in every row that has an open slot (quotas and probabilities of zero are the
published exceptions and say so). Equal scores are decided for the lower slot, on every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LOWEST = -torch.inf


def quota(score: Tensor, open: Tensor, count: int) -> Tensor:
    """Commit the `count` best open slots.

    Args:
        score: [..., L], higher is surer.
        count: slots to commit; 0 commits none, which only Dream's schedule asks for.
    Source: LLaDA, arXiv:2502.09992 (its fixed schedule).
    """
    return open & (_rank(score, open) < count)


def threshold(confidence: Tensor, open: Tensor, tau: float, *, strict: bool = False) -> Tensor:
    """Commit every open slot at least `tau` sure, and always the surest one.

    Args:
        confidence: [..., L], probability in [0, 1] of the token proposed for each slot.
        tau: in [0, 1].
        strict: commit at `> tau` instead of `>= tau`.
    Source: Fast-dLLM, arXiv:2505.22618 (`>=` as its code; Fast-dLLM v2, SDAR and LLaDA2 compare with `>`).
    """
    sure = confidence > tau if strict else confidence >= tau
    return open & (sure | (_rank(confidence, open) == 0))


def factor(confidence: Tensor, open: Tensor, f: float) -> Tensor:
    """Commit the r surest slots while the r-th is at least 1 - f / (r + 1) sure; the surest always.

    More slots in one pass need more confidence each. Fast-dLLM's own loop also takes the slot *after* the last one that
    passed when that slot is the least sure of the row; that is not reproduced.

    Args:
        confidence: [..., L], probability in [0, 1].
        f: > 0; 1 is published.
    Source: Fast-dLLM, arXiv:2505.22618, section 3.3.
    """
    ordered, order = _sorted(confidence, open)
    rank = torch.arange(1, confidence.shape[-1] + 1, device=confidence.device)
    passes = ordered >= 1 - f / (rank + 1)
    passes[..., :1] = True
    return open & _unsort(passes.cumprod(-1).bool(), order)


def entropy_bound(entropy: Tensor, open: Tensor, gamma: float) -> Tensor:
    """Commit the most certain slots while the sum of their entropies less the largest stays within `gamma`.

    The left side bounds the mutual information between the committed slots, so `gamma` is the error of the joint
    distribution allowed per pass, in nats. The first slot is always in.

    Args:
        entropy: [..., L], nats, of the distribution each proposal is drawn from.
        gamma: >= 0; at 0 only slots without any uncertainty join the first.
    Source: EB-sampler, arXiv:2505.24857, equation 8.
    """
    ordered, order = _sorted(-entropy, open)
    ordered = -ordered  # ascending entropy; closed slots are +inf and come last
    before = ordered.cumsum(-1) - ordered
    return open & _unsort(before <= gamma, order)  # inf - inf is nan, which compares False


def entropy_bounded(entropy: Tensor, open: Tensor, gamma: float) -> Tensor:
    """Commit the most certain slots while the sum of all their entropies is below `gamma`; the most certain always.

    Stricter than `entropy_bound`, which leaves the largest entropy out of the sum.

    Source: JetEngine's `entropy_bounded` for SDAR.
    """
    ordered, order = _sorted(-entropy, open)
    within = (-ordered).cumsum(-1) < gamma
    within[..., :1] = True
    return open & _unsort(within, order)


def leftmost(open: Tensor, count: int) -> Tensor:
    """Commit the `count` first open slots from the left.

    Source: SDAR, arXiv:2510.06303, `sequential`.
    """
    return open & (open.long().cumsum(-1) <= count)


def dynamic(confidence: Tensor, open: Tensor, tau: float, count: int) -> Tensor:
    """Commit all slots more than `tau` sure if there are at least `count` of them, else the `count` surest.

    Source: SDAR, arXiv:2510.06303, `low_confidence_dynamic`.
    """
    sure = open & (confidence > tau)
    enough = sure.sum(-1, keepdim=True) >= count
    return torch.where(enough, sure, quota(confidence, open, count))


def threshold_within(confidence: Tensor, open: Tensor, tau: float, count: int) -> Tensor:
    """Of the `count` surest slots commit those at least `tau` sure, and always the surest one.

    Source: Fast-dLLM's `confidence_threshold` for Dream.
    """
    return threshold(confidence, open, tau) & quota(confidence, open, max(count, 1))


def bernoulli(uniform: Tensor, open: Tensor, probability: float) -> Tensor:
    """Commit each open slot by itself with `probability`; a pass may commit none.

    Args:
        uniform: [..., L] in [0, 1), one draw per slot.
    Source: Dream, arXiv:2508.15487, `origin` (the ancestral sampler of masked diffusion).
    """
    return open & (uniform < probability)


def _sorted(score: Tensor, open: Tensor) -> tuple[Tensor, Tensor]:
    """Scores in descending order and their slots; closed slots are -inf and come last, ties by slot."""
    ordered = score.masked_fill(~open, _LOWEST).sort(dim=-1, descending=True, stable=True)
    return ordered.values, ordered.indices


def _unsort(flags: Tensor, order: Tensor) -> Tensor:
    return torch.zeros_like(flags).scatter_(-1, order, flags)


def _rank(score: Tensor, open: Tensor) -> Tensor:
    """[..., L] int64: 0 for the best open slot, and so on."""
    _, order = _sorted(score, open)
    places = torch.arange(score.shape[-1], device=score.device).expand_as(order)
    return torch.zeros_like(order).scatter_(-1, order, places)
