"""The denoiser that knows every conditional, in the place of a network.

It learns what a row may use from the pass itself: attention with equal scores and one-hot values tells who sees whom,
and what the seen ones have seen counts as seen, as in a deep network. A mask that lets an answer through therefore
shows as a loss that is too low.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from tests.oracles import Joint
from torch import Tensor

from anyorder.models.transformer import Attend
from anyorder.training.batch import Batch
from anyorder.training.passes import TrainingPass, cross_entropies

TINY = 1e-30  # the probability of what cannot be


def sight(attend: Attend, tokens: int, rows: Tensor) -> Tensor:
    """[R, T] bool: the tokens that can influence a row, however many layers lie between."""
    values = torch.eye(tokens, dtype=torch.float64)[:, None]
    equal = torch.zeros_like(values)
    direct = attend(0, equal, equal, values)[:, 0] > 0
    last = attend(1, equal[rows], equal, values)[:, 0] > 0
    assert torch.equal(last, direct[rows]) or rows.numel() == 0
    while not torch.equal(wider := (direct.double() @ direct.double()) > 0, direct):
        direct = wider
    return direct[rows]


class ExactDenoiser:
    """`Network` of a joint whose slots are the positions of every document.

    Args:
        joint: the law of each document.
        shift: rows predict the next slot.
        noise: None: noisy tokens are masks. Else the ratio of uniform noise on the tokens behind the first `clean`.
        clean: tokens of the context, which come first.
    """

    def __init__(self, joint: Joint, *, shift: bool = False, noise: float | None = None, clean: int = 0) -> None:
        self.joint = joint
        self.shift = shift
        self.noise = noise
        self.clean = clean

    def __call__(self, ids: Tensor, positions: Tensor, attend: Attend, rows: Tensor, /, *context: int) -> Tensor:
        """[R, V + 1] log-marginals of the slot that each row predicts."""
        seen = sight(attend, ids.shape[0], rows).double()
        weights = (seen @ self._log_likelihood(ids, positions)).exp() * self.joint.probability  # [R, N]
        total = weights.sum(-1, keepdim=True)
        assert (total > 0).all(), "a row sees tokens that contradict each other"
        says = self.joint.support[:, positions[rows] + int(self.shift)].T  # [R, N]
        marginals = torch.zeros(len(rows), self.joint.num_symbols + 1, dtype=torch.float64)
        return marginals.scatter_add_(1, says, weights / total).clamp_min(TINY).log()

    def head(self, hidden: Tensor, /) -> Tensor:
        return hidden

    def _log_likelihood(self, ids: Tensor, positions: Tensor) -> Tensor:
        """[T, N], what each fed token says about each canvas if it is seen."""
        matches = (ids[:, None] == self.joint.support[:, positions].T).double()
        blurred = (1 - self.noise) * matches + self.noise / self.joint.num_symbols if self.noise else matches
        clean = torch.arange(len(ids))[:, None] < self.clean
        likelihood = torch.where((ids == self.joint.mask_id)[:, None], 1.0, torch.where(clean, matches, blurred))
        return likelihood.log().clamp_min(-1e4)  # exp(-1e4) is 0, and 0 times it is no NaN


def everything(joint: Joint, *, per_row: int = 1) -> tuple[Batch, Tensor]:
    """A batch that holds every possible canvas once, and the probability of each of its documents.

    Args:
        per_row: documents in a row.
    """
    order = torch.arange(len(joint.support))
    order = torch.cat([order, order[: -len(order) % per_row]])  # the last row is filled up; those documents count 0
    weight = joint.probability[order] * (torch.arange(len(order)) < len(joint.support))
    ids = joint.support[order].view(-1, per_row * joint.length)
    documents = (torch.arange(ids.shape[1]) // joint.length).expand_as(ids)
    return Batch(ids, documents, torch.ones_like(ids, dtype=torch.bool)), weight


def per_document(batch: Batch, network: ExactDenoiser, p: TrainingPass) -> Tensor:
    """[documents] the part of the loss that each document adds."""
    parts = p.weights * cross_entropies(network, p)
    return parts.new_zeros(batch.num_documents).index_add_(
        0, batch.document_index.flatten()[p.rows % batch.ids.numel()], parts
    )


def subsets(length: int) -> Iterator[tuple[bool, ...]]:
    return itertools.product((False, True), repeat=length)


def draws_for(chosen: Sequence[bool], batch: Batch) -> Tensor:
    """Numbers that choose exactly these slots of every document, whatever the ratio in (0, 1)."""
    pattern = torch.tensor([0.0 if yes else 1.0 for yes in chosen], dtype=torch.float64)
    return pattern[batch.positions]


def chance(chosen: Sequence[bool], ratio: float) -> float:
    """Probability of choosing exactly these slots."""
    return math.prod(ratio if yes else 1 - ratio for yes in chosen)


def nodes(low: float, high: float, count: int = 2) -> list[tuple[float, float]]:
    """(t, weight) of the Gauss-Legendre mean over U(low, high), exact for polynomials of degree 2 count - 1.

    The integrands here have the degree of the documents' length less 1, at most 3.
    """
    steps = torch.arange(1, count, dtype=torch.float64)
    off = steps / (4 * steps**2 - 1).sqrt()
    points, vectors = torch.linalg.eigh(torch.diag(off, 1) + torch.diag(off, -1))  # Golub and Welsch
    weights = vectors[0] ** 2  # they sum to 1
    scaled = low + (high - low) * (points + 1) / 2
    return list(zip(scaled.tolist(), weights.tolist(), strict=True))


def entropy(joint: Joint, slots: Sequence[int]) -> float:
    """H(X_slots) in nats."""
    return joint.entropy([joint.mask_id] * joint.length, slots) if slots else 0.0


def conditional(joint: Joint, slot: int, given: Sequence[int]) -> float:
    """H(X_slot | X_given) in nats."""
    return entropy(joint, [*given, slot]) - entropy(joint, given)
