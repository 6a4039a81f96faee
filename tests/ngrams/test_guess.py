"""Guesses come from the longest context first, add up to at most one, and are right as often as they say."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ngrams.texts import FEW, FLAT, TEXTS, Text, chain, counted

from anyorder.ngrams.fit import fit
from anyorder.ngrams.guess import WIDTH, Guesser, SeenText
from anyorder.ngrams.table import NgramTable
from anyorder.ngrams.weights import LEVELS, PRIOR


@given(st.lists(FEW, max_size=40), st.lists(st.integers(0, 40)), st.lists(FEW, max_size=LEVELS + 2))
def test_the_text_so_far_is_counted_as_by_a_search(ids: list[int], cuts: list[int], context: list[int]) -> None:
    seen = SeenText()
    for cut in [*sorted(cuts), len(ids)]:
        seen.read(ids[:cut])
    ends = [context[-level:] for level in range(1, min(LEVELS, len(context)) + 1)]
    assert seen.matches(context) == [counts for end in ends if (counts := counted([(ids[:1], ids[1:])], end))]


@given(TEXTS, st.lists(FEW, max_size=20), st.lists(FEW, max_size=5), st.sampled_from([0.0, 0.01, 0.2]))
def test_chances_are_sorted_different_and_no_more_than_one(
    texts: list[Text], ids: list[int], behind: list[int], floor: float
) -> None:
    guesser = Guesser(NgramTable.of(texts, PRIOR), PRIOR)
    guesser.read(ids)
    found = guesser.guesses([*ids, *behind], floor)
    chances, tokens = [chance for chance, _ in found], [token for _, token in found]
    assert chances == sorted(chances, reverse=True)
    assert len(set(tokens)) == len(tokens) <= WIDTH
    assert sum(chances) <= 1 + 1e-9
    assert all(chance >= floor for chance in chances)


@given(TEXTS, st.lists(FEW, max_size=20), st.sampled_from([0.01, 0.2]))
def test_the_floor_leaves_out_what_is_below_it(texts: list[Text], ids: list[int], floor: float) -> None:
    guesser = Guesser(NgramTable.of(texts, PRIOR), PRIOR)
    guesser.read(ids)
    every = {token: chance for chance, token in guesser.guesses(ids, 0.0)}
    found = {token: chance for chance, token in guesser.guesses(ids, floor)}
    assert set(found) >= {token for token, chance in every.items() if chance >= 1.5 * floor}
    assert all(every[token] - floor / 2 <= chance <= every[token] + 1e-9 for token, chance in found.items())


@given(TEXTS, st.lists(FEW, max_size=20))
def test_chances_are_the_formula(texts: list[Text], ids: list[int]) -> None:
    """Every context hands on what it does not give to its followers; one that only says the same again is left out."""
    expected: dict[int, float] = {}
    left = 1.0
    for level in range(LEVELS, 0, -1):
        for source, text in enumerate(([(ids[:1], ids[1:])], texts)):
            if level > len(ids):
                continue
            counts, longer = counted(text, ids[-level:]), counted(text, ids[-level - 1 :])
            same = sum(counts.values()) == sum(longer.values()) if source else counts == longer
            if not counts or (same and level < min(LEVELS, len(ids))):
                continue
            share = PRIOR.share(source, level - 1, sum(counts.values()), len(counts))
            for token, count in counts.items():
                expected[token] = expected.get(token, 0.0) + left * share * count / sum(counts.values())
            left *= 1 - share
    guesser = Guesser(NgramTable.of(texts, PRIOR), PRIOR)
    guesser.read(ids)
    found = {token: chance for chance, token in guesser.guesses(ids, 0.0)}
    assert found == pytest.approx(expected)


def test_the_longest_context_goes_first_and_the_text_before_the_table() -> None:
    table = NgramTable.of([((), (1, 2, 3)), ((), (9, 2, 4)), ((), (2, 5))], FLAT)
    guesser = Guesser(table, FLAT)  # every context gets one half of what is left
    chances = {token: chance for chance, token in guesser.guesses([1, 2], 0.0)}
    assert chances == pytest.approx({3: 0.5 + 0.25 / 3, 4: 0.25 / 3, 5: 0.25 / 3})
    guesser.read([2, 6, 8, 2])
    assert [token for _, token in guesser.guesses([1, 2], 0.0)][:2] == [3, 6]
    assert guesser.guesses([8, 2], 0.0)[0][1] == 6


def test_without_a_table_the_text_alone_is_asked() -> None:
    guesser = Guesser(None, PRIOR)
    assert guesser.guesses([1, 2], 0.0) == []
    guesser.read([1, 2, 3, 1, 2])
    assert [token for _, token in guesser.guesses([1, 2], 0.0)] == [3]


def test_fitted_chances_are_right_as_often_as_they_say() -> None:
    rng = random.Random(5)
    corpora: list[list[Text]] = [[((), chain(rng, 60)) for _ in range(count)] for count in (60, 40, 60)]
    counted_in, fitted_on, tried_on = corpora
    table = NgramTable.of(counted_in, PRIOR)
    weights = fit(table, fitted_on, PRIOR)
    guesses: list[tuple[float, bool]] = []
    for _, ids in tried_on:
        guesser = Guesser(table, weights)
        for place in range(1, len(ids)):
            guesser.read(ids[:place])
            guesses += [(chance, token == ids[place]) for chance, token in guesser.guesses(ids[:place], 0.0)[:3]]
    guesses.sort()
    size = len(guesses) // 4
    assert size > 2000
    for quarter in range(4):
        group = guesses[quarter * size : (quarter + 1) * size]
        promised = sum(chance for chance, _ in group) / size
        kept = sum(right for _, right in group) / size
        assert kept == pytest.approx(promised, abs=0.04), quarter
