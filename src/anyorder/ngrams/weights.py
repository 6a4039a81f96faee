"""How much a match is worth: the share of the chance that a context gives to what followed it before."""

from __future__ import annotations

from math import exp, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

LEVELS = 8
"""Longest context in tokens; longer matches are right 19 times in 20 already."""
SOURCES = 2
"""0 is the text so far, 1 the table."""
LARGEST = 30
"""Of a weight: far more than any text calls for, and far from an overflow."""


class Weights:
    """Three numbers per source and length of context: a logistic regression on the counts of what followed.

    Args:
        numbers: [SOURCES, LEVELS, 3] float32: constant, ln(occurrences), ln(different followers).
    """

    SHAPE: ClassVar[tuple[int, ...]] = (SOURCES, LEVELS, 3)

    def __init__(self, numbers: NDArray[np.float32]) -> None:
        self.numbers = numbers
        self._rows: list[list[list[float]]] = numbers.tolist()

    def share(self, source: int, level: int, total: int, kinds: int) -> float:
        """Of the chance left by longer contexts, for one that occurred `total` times with `kinds` followers."""
        constant, by_total, by_kinds = self._rows[source][level]
        return 1 / (1 + exp(-constant - by_total * log(total) - by_kinds * log(kinds)))


def spread(per_source: list[list[tuple[float, float, float]]]) -> Weights:
    """Weights from numbers written down."""
    return Weights(np.array(per_source, np.float32))


PRIOR = spread(
    [
        [(-1.3, 1.6, -1.3), (-0.1, 1.5, -1.9), (0.2, 1.6, -2.7), (0.4, 1.3, -2.3),
         (0.7, 1.2, -2.6), (0.9, 1.2, -2.8), (0.7, 1.5, -3.2), (1.7, 2.4, -3.7)],
        [(-1.5, 0.9, -1.0)] * LEVELS,
    ]
)  # fmt: skip
"""The text so far: fitted on the default model's own answers, without a table. A table: roughly what one comes to."""
