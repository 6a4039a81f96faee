"""How sure the model is of a proposal: pure functions from logits to one number per row."""

from __future__ import annotations

from torch import Tensor


def probability(logits: Tensor, ids: Tensor) -> Tensor:
    """Probability of `ids` under softmax(logits).

    Args:
        logits: [n, V] float.
        ids: [n] int64.
    Returns:
        [n] float32 (float64 for float64 logits), in [0, 1].
    """
    logits = _precise(logits)
    return (logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)).exp()


def margin(logits: Tensor) -> Tensor:
    """Probability of the best token less that of the second best: [n, V] -> [n].

    Source: Dream's `topk_margin`.
    """
    logits = _precise(logits)
    best = (logits.topk(2, dim=-1).values - logits.logsumexp(-1, keepdim=True)).exp()
    return best[:, 0] - best[:, 1]


def entropy(logits: Tensor) -> Tensor:
    """Entropy in nats of softmax(logits): [n, V] -> [n]; entries of -inf count nothing."""
    log_p = _precise(logits).log_softmax(-1)
    return -(log_p.exp() * log_p.masked_fill(log_p.isinf(), 0)).sum(-1)


def _precise(logits: Tensor) -> Tensor:
    return logits if logits.dtype.itemsize >= 4 else logits.float()
