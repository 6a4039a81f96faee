"""Rows by number: an endless, seeded stream of packed rows whose state is how many were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anyorder.draws import Draws
from anyorder.errors import ParameterError
from anyorder.training.batch import PADDING, Batch
from anyorder.training.data.documents import Documents
from anyorder.training.data.packing import Span

ORDER, CHOICE = 1 << 16, 1 << 17
"""Numbers of samples in `Draws`, apart from the purposes of `StepDraws`."""


@dataclass(frozen=True)
class Share:
    """The rows of one source, and how often they come in an epoch."""

    rows: Sequence[Sequence[Span]]
    weight: float = 1.0


class PackedRows:
    """Rows start .. start + count - 1 of a stream that shuffles itself anew in every epoch.

    A pure function of (seed, start): epoch = start // rows per epoch, and each epoch has a permutation of its own.

    Args:
        documents: holds the tokens of the spans.
        shares: rows of each source.
        length: of a row, in tokens.
        seed: of the order.
    Raises:
        ParameterError: the shares come to no row.
    """

    def __init__(self, documents: Documents, shares: Sequence[Share], *, length: int, seed: int = 0) -> None:
        self.length = length
        self.seed = seed
        self._rows = [row for share in shares for row in share.rows]
        self._shares = shares
        self._ids = np.frombuffer(documents.ids, dtype=np.int32)
        self._trainable = np.frombuffer(documents.trainable, dtype=np.bool_)
        self._epoch: tuple[int, list[int]] = (0, self._order(0))
        if not len(self):
            raise ParameterError("the data comes to no row; give more of it, or a higher weight", param="weight")

    def __len__(self) -> int:
        """Rows of an epoch."""
        return len(self._epoch[1])

    def batch(self, start: int, count: int) -> Batch:
        """Rows number start .. start + count - 1, on the CPU."""
        return as_batch([self._row(number) for number in range(start, start + count)], self.length)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the number of the next row is all the state there is."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The counterpart of `state_dict`."""

    def _row(self, number: int) -> list[tuple[np.ndarray, np.ndarray]]:
        epoch, place = divmod(number, len(self))
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        spans = self._rows[self._epoch[1][place]]
        return [(self._ids[span.start : span.stop], self._trainable[span.start : span.stop]) for span in spans]

    def _order(self, epoch: int) -> list[int]:
        """Numbers of the rows of an epoch, in its order."""
        chosen: list[Tensor] = []
        start = 0
        for number, share in enumerate(self._shares):
            rows = torch.arange(start, start + len(share.rows))
            whole = int(share.weight)
            part = round((share.weight - whole) * len(share.rows))
            chosen += [rows.repeat(whole), rows[self._permutation(CHOICE + number, epoch, len(rows))[:part]]]
            start += len(share.rows)
        numbers = torch.cat(chosen)
        return numbers[self._permutation(ORDER, epoch, len(numbers))].tolist()

    def _permutation(self, sample: int, epoch: int, size: int) -> Tensor:
        return Draws(self.seed, sample).uniform(torch.arange(size), epoch).argsort(stable=True)


def as_batch(rows: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]], length: int) -> Batch:
    """Rows of (ids, trainable) parts, one per document, as a batch; what is left of a row is padding."""
    ids = torch.zeros(len(rows), length, dtype=torch.int64)
    documents = torch.full((len(rows), length), PADDING)
    trainable = torch.zeros(len(rows), length, dtype=torch.bool)
    for row, parts in enumerate(rows):
        start = 0
        for number, (tokens, marks) in enumerate(parts):
            columns = slice(start, start + len(tokens))
            ids[row, columns] = torch.tensor(tokens, dtype=torch.int64)
            trainable[row, columns] = torch.tensor(marks, dtype=torch.bool)
            documents[row, columns] = number
            start += len(tokens)
    return Batch(ids, documents, trainable)
