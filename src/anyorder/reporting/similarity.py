"""How alike two texts are, and how much one repeats itself; on token ids, or on words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """Tokens up to the first difference."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def edit_similarity(a: Sequence[object], b: Sequence[object]) -> float:
    """1 - Levenshtein distance / longer length; 1.0 for equal texts, 0.0 where nothing can be kept."""
    longest = max(len(a), len(b))
    return 1 - _edits(a, b) / longest if longest else 1.0


def _edits(a: Sequence[object], b: Sequence[object]) -> int:
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
        above = row
    return above[-1]


def repetition(ids: Sequence[int], size: int = 4) -> float:
    """Share of the n-grams that occurred before in the same text; 0.0 for texts too short to have two."""
    grams = [tuple(ids[at : at + size]) for at in range(len(ids) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
