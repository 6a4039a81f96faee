"""Clean token rows, and where their documents and blocks begin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from anyorder.errors import ParameterError

PADDING = -1
"""Document number of padding."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Packed rows of one length.

    A document is a run of equal numbers within a row: rows never see each other, whatever their numbers. Positions and
    blocks are counted from the first token of the document, as a decoder counts them from the first column of a
    request. Padding is a document that nobody else sees and nothing is learned from.

    Raises:
        ParameterError: shapes or dtypes differ from those below, or padding is marked trainable.
    """

    ids: Tensor
    """[B, L] int64"""
    documents: Tensor
    """[B, L] int64, number of the document of each token; -1 is padding."""
    trainable: Tensor
    """[B, L] bool, tokens that may be masked and scored; prompts of instruction data are not."""

    def __post_init__(self) -> None:
        for name, dtype in (("ids", torch.int64), ("documents", torch.int64), ("trainable", torch.bool)):
            given: Tensor = getattr(self, name)
            if given.shape != self.ids.shape or given.dim() != 2 or given.dtype != dtype:
                raise ParameterError(
                    f"`{name}` must be {dtype} [B, L] with the shape of `ids` {tuple(self.ids.shape)}, "
                    f"got {given.dtype} {tuple(given.shape)}",
                    param=name,
                )
        if (self.trainable & (self.documents == PADDING)).any():
            raise ParameterError("`trainable` marks padding (document -1); clear it there", param="trainable")

    @classmethod
    def of(cls, ids: Tensor) -> Batch:
        """Rows of one document each, trainable throughout; ids [B, L] int64."""
        return cls(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool))

    @cached_property
    def positions(self) -> Tensor:
        """[B, L] int64, place of each token within its document."""
        columns = torch.arange(self.ids.shape[1], device=self.ids.device).expand_as(self.ids)
        begins = torch.ones_like(self.trainable)
        begins[:, 1:] = self.documents[:, 1:] != self.documents[:, :-1]
        return columns - torch.where(begins, columns, 0).cummax(1).values

    @cached_property
    def document_index(self) -> Tensor:
        """[B, L] int64, documents numbered through the batch from 0, padding included."""
        return _numbered(self.positions == 0)

    @property
    def num_documents(self) -> int:
        """Padding included."""
        return int((self.positions == 0).sum())

    def num_blocks(self, block_length: int) -> int:
        """Of all documents."""
        return int(self.block_index(block_length).max()) + 1

    def block_index(self, block_length: int, offset: int = 0) -> Tensor:
        """[B, L] int64, blocks of all documents numbered through the batch from 0; the last one may be short.

        Args:
            offset: tokens that the first block of every document is short of.
        Raises:
            ParameterError: block_length is not positive.
        """
        if block_length < 1:
            raise ParameterError(f"`block_length` must be a positive integer, got {block_length}", param="block_length")
        return _numbered((self.positions == 0) | ((self.positions + offset) % block_length == 0))


def _numbered(begins: Tensor) -> Tensor:
    """[B, L] bool, True at the first token of a group -> number of the group of each token."""
    return begins.flatten().cumsum(0).view(begins.shape) - 1
