"""Small texts for tables, and the obvious way to count in them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from anyorder.ngrams.weights import Weights

Text = tuple[Sequence[int], Sequence[int]]

FEW = st.integers(0, 3)  # so few tokens that contexts come back
TEXTS = st.lists(st.tuples(st.lists(FEW, max_size=6).map(tuple), st.lists(FEW, max_size=30).map(tuple)), max_size=5)
FLAT = Weights(np.zeros(Weights.SHAPE, np.float32))


def counted(texts: Sequence[Text], context: Sequence[int]) -> dict[int, int]:
    """What follows `context` where something is to be predicted."""
    found: Counter[int] = Counter()
    for before, predicted in texts:
        ids = [*before, *predicted]
        for place in range(len(before), len(ids)):
            if place >= len(context) and ids[place - len(context) : place] == list(context):
                found[ids[place]] += 1
    return dict(found)


def chain(rng: random.Random, length: int) -> tuple[int, ...]:
    """Text in which three of four tokens follow from the one before."""
    ids = [rng.randrange(30)]
    for _ in range(length):
        ids.append((ids[-1] * 7 + 3) % 30 if rng.random() < 0.75 else rng.randrange(30))
    return tuple(ids)
