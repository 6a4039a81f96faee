"""The regression finds the weights that its observations were drawn with, and keeps the prior without any."""

from __future__ import annotations

import random
from itertools import product
from math import log

import numpy as np
import pytest
from tests.ngrams.texts import FLAT, Text, chain

from anyorder.ngrams.fit import fit, logistic
from anyorder.ngrams.guess import Guesser
from anyorder.ngrams.table import NgramTable
from anyorder.ngrams.weights import LARGEST, PRIOR, SOURCES, Weights


def test_weights_that_drew_the_observations_are_found_again() -> None:
    rng = np.random.default_rng(0)
    true = np.array([-0.5, 1.2, -0.8])
    features = np.column_stack([np.ones(20_000), rng.uniform(0, 3, 20_000), rng.uniform(0, 2, 20_000)])
    right = (rng.random(20_000) < 1 / (1 + np.exp(-features @ true))).astype(float)
    found = logistic(features, right, 1 - right, prior=np.zeros(3, np.float32), start=np.zeros(3))
    assert found == pytest.approx(true, abs=0.1)


@pytest.mark.parametrize("start", [(0.0, 0.0, 0.0), (8.0, -8.0, 8.0)])
def test_the_top_of_the_posterior_is_flat_wherever_the_search_begins(start: tuple[float, ...]) -> None:
    features = np.array([[1.0, 0.0, 0.0], [1.0, 2.0, 1.0], [1.0, 1.0, 3.0]])
    right, wrong = np.array([1.0, 0.5, 2.0]), np.zeros(3)  # without a prior the weights would grow for ever
    prior = np.array([0.5, -1.0, 0.0], np.float32)
    weights = logistic(features, right, wrong, prior=prior, start=np.array(start))
    chance = 1 / (1 + np.exp(-features @ weights))
    assert features.T @ (right * (1 - chance)) == pytest.approx(weights - prior, abs=1e-6)


def surprise(table: NgramTable, weights: Weights, texts: list[Text]) -> float:
    """Negative log-probability of the texts and of the weights; a token that no context has shown counts 1e-5."""
    logs = [float(((weights.numbers - PRIOR.numbers) ** 2).sum() / 2)]
    for before, predicted in texts:
        guesser, ids = Guesser(table, weights), [*before, *predicted]
        for place in range(max(1, len(before)), len(ids)):
            guesser.read(ids[:place])
            left, chance = 1.0, 0.0
            for source, level, counts in guesser.matches(ids[:place]):
                share = weights.share(source, level, sum(counts.values()), len(counts))
                chance += left * share * counts.get(ids[place], 0) / sum(counts.values())
                left *= 1 - share
            logs.append(-log(chance + left * 1e-5))
    return sum(logs)


def test_fitted_weights_are_more_probable_than_any_near_them() -> None:
    rng = random.Random(1)
    texts: list[Text] = [((), chain(rng, 60)) for _ in range(60)]
    table = NgramTable.of(texts[:30], PRIOR)
    fitted = fit(table, texts[30:], PRIOR)
    best = surprise(table, fitted, texts[30:])
    assert best < surprise(table, PRIOR, texts[30:]) - 10
    for place in product(range(SOURCES), range(3), range(3)):
        for change in (-1, 1):
            numbers = fitted.numbers.copy()
            numbers[place] += change
            assert surprise(table, Weights(numbers), texts[30:]) > best


def test_without_text_the_prior_stays() -> None:
    assert np.array_equal(fit(None, [], PRIOR).numbers, PRIOR.numbers)


def test_a_source_that_lies_is_trusted_less() -> None:
    table = NgramTable.of([((), (1, 2, 1, 2, 1, 2))], FLAT)
    lies = fit(table, [((), (1, 3))] * 20, FLAT)
    honest = fit(table, [((), (1, 2))] * 20, FLAT)
    assert lies.share(1, 0, 3, 1) < FLAT.share(1, 0, 3, 1) < honest.share(1, 0, 3, 1)


def test_largest_weights_do_not_overflow() -> None:
    extreme = Weights(np.full(Weights.SHAPE, LARGEST, np.float32) * np.array([1, 1, -1], np.float32))
    assert 0 <= extreme.share(0, 0, 4096, 4096) <= 1
    assert 0 <= Weights(-extreme.numbers).share(0, 0, 2**13, 1) <= 1
