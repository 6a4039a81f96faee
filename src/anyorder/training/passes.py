"""What an objective asks of one forward of the network, and the loss that all objectives share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.models.transformer import Attend
from anyorder.training.head import LOGIT_ROWS, head_loss


class Network(Protocol):
    """What `loss` needs of a network; `anyorder.models.transformer.Transformer` is one."""

    def __call__(self, ids: Tensor, positions: Tensor, attend: Attend, rows: Tensor, /, *context: int) -> Tensor:
        """Hidden states of the wanted rows, [R, hidden]; `context` only where a pass has one."""
        ...

    def head(self, hidden: Tensor, /) -> Tensor:
        """[R, hidden] -> logits [R, V]."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingPass:
    """One forward of the network and what its rows should say."""

    ids: Tensor
    """[T] int64, fed tokens: all streams of all rows of the batch, one behind the other."""
    positions: Tensor
    """[T] int64, RoPE positions."""
    attend: Attend
    """Who sees whom; made for these `rows`."""
    rows: Tensor
    """[R] int64, strictly increasing indices into `ids` whose logits are scored."""
    targets: Tensor
    """[R] int64, what each row should say."""
    weights: Tensor
    """[R] float, the factor of each row's cross-entropy, normalisation included."""
    context: int = 0
    """Leading fed tokens, the clean text, that a network with an adapter reads with the adapter off: none of their rows
    is scored, and they see no noisy token. 0: there is no adapter, or it is on everywhere."""
    conditioned: bool = False
    """The network is told what it predicts of the noisy tokens in a pass before (`conditioning.conditioned_loss`)."""


def cross_entropies(network: Network, p: TrainingPass) -> Tensor:
    """-log p(target) of every row in nats, [R] float32 (float64 for a float64 network)."""
    hidden = _hidden(network, p)
    parts = zip(hidden.split(LOGIT_ROWS), p.targets.split(LOGIT_ROWS), strict=True)
    return torch.cat([F.cross_entropy(network.head(part), targets, reduction="none") for part, targets in parts])


def loss(network: Network, p: TrainingPass) -> Tensor:
    """The weighted sum of the rows' cross-entropies, a scalar; 0 with zero gradients when the pass has no row."""
    if not torch.is_grad_enabled():
        entropies = cross_entropies(network, p)
        return (p.weights * entropies).sum().to(entropies.dtype)
    hidden = _hidden(network, p)
    if not hidden.shape[0]:  # nothing to learn, but a trainer's backward pass must find a graph
        return network.head(hidden).sum() + hidden.sum()
    return head_loss(network.head, hidden, p.targets, p.weights)


def _hidden(network: Network, p: TrainingPass) -> Tensor:
    return network(p.ids, p.positions, p.attend, p.rows, *([p.context] if p.context else []))
