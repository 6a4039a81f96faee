"""Text similarity on cases with known answers, and against the plain recursion."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.reporting.similarity import common_prefix, edit_similarity, repetition

IDS = st.lists(st.integers(0, 3), max_size=7)


def slow_edits(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Levenshtein by its definition."""

    @functools.cache
    def distance(i: int, j: int) -> int:
        if i == 0 or j == 0:
            return i + j
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return distance(len(a), len(b))


@given(IDS, IDS)
def test_edit_similarity_is_one_minus_the_distance_over_the_longer_text(a: list[int], b: list[int]) -> None:
    longest = max(len(a), len(b))
    expected = 1 - slow_edits(tuple(a), tuple(b)) / longest if longest else 1
    assert edit_similarity(a, b) == pytest.approx(expected)


def test_the_prefix_ends_at_the_first_difference() -> None:
    assert common_prefix([1, 2, 3, 4], [1, 2, 9, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix([], [1]) == 0


def test_repetition_counts_what_was_there_before() -> None:
    assert repetition([1, 2, 3, 4, 5, 6]) == 0
    assert repetition([7] * 13) == pytest.approx(0.9)  # ten 4-grams, one of them new
    assert repetition([1, 2, 3, 4, 1, 2, 3, 4]) == pytest.approx(1 / 5)
    assert repetition([1, 2, 3]) == 0
