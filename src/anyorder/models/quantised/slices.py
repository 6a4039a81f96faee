"""A matrix some rows at a time: what rounding takes besides the matrix stays small, and does not tear the heap."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

NUMBERS = 1 << 18
ROWS = 64
"""Every slice but the last has a multiple of so many rows."""


def row_slices(matrix: Tensor) -> Iterator[slice]:
    """Slices of rows, in order; matrix: [rows, columns]."""
    step = max(1, NUMBERS // (matrix.shape[1] * ROWS)) * ROWS
    for start in range(0, matrix.shape[0], step):
        yield slice(start, min(start + step, matrix.shape[0]))
