"""How sure the model is of a proposal: pure functions from logits to one number per row."""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.draws import cached_rows


def probability(logits: Tensor, ids: Tensor) -> Tensor:
    """Probability of `ids` under softmax(logits).

    Args:
        logits: [n, V] float.
        ids: [n] int64.
    Returns:
        [n] float32 (float64 for float64 logits), in [0, 1].
    """
    # softmax, not logsumexp: it is one fused kernel, and what the published samplers take
    return _precise(logits).softmax(-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1)


def likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best ids of every row and their probabilities under softmax(logits), best first.

    Args:
        logits: [n, V] float.
        count: ids per row; all of them where there are fewer.
    Returns:
        ids [n, count] int64 and probabilities [n, count], the same numbers as `probability` of these ids.
    """
    best = _precise(logits).softmax(-1).topk(min(count, logits.shape[-1]), dim=-1)
    return best.indices, best.values


def log_probabilities(logits: Tensor, ids: Tensor, count: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Natural logarithms of probabilities under softmax(logits), also of those too small for `probability`.

    Args:
        logits: [n, V] float.
        ids: [n] int64.
        count: best ids to name beside them.
    Returns:
        [n] of `ids`; the best ids [n, count] int64, best first; theirs [n, count]. -inf where a logit is.
    """
    logits = _precise(logits)
    total = logits.logsumexp(-1, keepdim=True)  # [n, 1]
    best = logits.topk(min(count, logits.shape[-1]), dim=-1)
    own = logits.gather(-1, ids.unsqueeze(-1))
    return (own - total).squeeze(-1), best.indices, best.values - total


def margin(logits: Tensor) -> Tensor:
    """Probability of the best token less that of the second best: [n, V] -> [n].

    Source: Dream's `topk_margin`.
    """
    logits = _precise(logits)
    best = (logits.topk(2, dim=-1).values - logits.logsumexp(-1, keepdim=True)).exp()
    return best[:, 0] - best[:, 1]


def entropy(logits: Tensor, probabilities: Tensor | None = None) -> Tensor:
    """Entropy in nats of softmax(logits): [n, V] -> [n]; entries of -inf count nothing.

    Args:
        logits: [n, V] float.
        probabilities: softmax(logits), at least float32, where it is at hand.
    """
    rows = cached_rows(logits)
    known = [None] * (len(logits) // rows + 1) if probabilities is None else probabilities.split(rows)
    return torch.cat([_entropy(*part) for part in zip(logits.split(rows), known, strict=False)])


def _entropy(logits: Tensor, probabilities: Tensor | None) -> Tensor:
    log_p = _precise(logits).log_softmax(-1)
    # in place: at a vocabulary's width every further tensor costs as much as the arithmetic
    chances = log_p.exp() if probabilities is None else probabilities
    return -torch.linalg.vecdot(chances, log_p.clamp_min_(torch.finfo(log_p.dtype).min))


def distant_entropy(logits: Tensor, slots: Tensor, penalty: float) -> Tensor:
    """Entropy in nats, and `penalty` more for every slot of distance from the first candidate: [n, V] -> [n].

    Args:
        logits: [n, V] float, as the model gave them: before temperature, top-k and top-p.
        slots: [n] int64, ascending.
        penalty: nats per slot, >= 0; published 0.02.
    Source: WeDLM, `select_positions_to_fill` of its engine.
    """
    return entropy(logits) + penalty * (slots - slots[:1])


def _precise(logits: Tensor) -> Tensor:
    return logits if logits.dtype.itemsize >= 4 else logits.float()
