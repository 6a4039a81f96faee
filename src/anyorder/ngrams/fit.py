"""Weights of a guesser, fitted on text that its table does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import log

import numpy as np
from numpy.typing import NDArray

from anyorder.ngrams.guess import Guesser
from anyorder.ngrams.table import NgramTable
from anyorder.ngrams.weights import LARGEST, LEVELS, SOURCES, Weights

Floats = NDArray[np.float64]

ROUNDS = 100  # the likelihood moves in its sixth digit after ten where all contexts are of use
UNHEARD = 1e-5  # chance of a token that no context has shown
_CONTEXT = 2 * LEVELS


def fit(table: NgramTable | None, texts: Iterable[tuple[Sequence[int], Sequence[int]]], prior: Weights) -> Weights:
    """The weights under which the texts are most probable.

    Which context a token came from is not known, so every round shares it out by what the last weights make of it, and
    then fits each context's share to what it got of the tokens that reached it (expectation maximisation).

    Args:
        table: of other text than `texts`.
        texts: as for `NgramTable.of`.
        prior: mean of a normal prior with deviation 1; what a context without observations keeps.
    """
    observed = _observe(Guesser(table, prior), texts)
    weights = prior.numbers.astype(np.float64)
    for _ in range(ROUNDS if len(observed.valid) else 0):
        taken, passed = observed.expectation(weights)
        last = weights.copy()
        for row in product(range(SOURCES), range(LEVELS)):
            own = observed.valid & (observed.source == row[0]) & (observed.level == row[1])
            data = observed.features[own], taken[own], passed[own]
            weights[row] = logistic(*data, prior=prior.numbers[row], start=weights[row])
        if np.abs(weights - last).max() < 1e-3:
            break
    return Weights(weights.clip(-LARGEST, LARGEST).astype(np.float32))


@dataclass(frozen=True, eq=False)
class _Observed:
    """The contexts of every predicted token, the longest first: N tokens, M contexts at most."""

    valid: NDArray[np.bool_]  # [N, M]
    source: NDArray[np.intp]  # [N, M]
    level: NDArray[np.intp]  # [N, M]
    features: Floats  # [N, M, 3]: 1, ln(occurrences), ln(different followers)
    truth: Floats  # [N, M]: how often the token followed, of all that followed

    def expectation(self, weights: Floats) -> tuple[Floats, Floats]:
        """[N, M] chance that the token came from each context, and that it came from a shorter one."""
        logits = (self.features * weights[self.source, self.level]).sum(-1)
        share = np.where(self.valid, 1 / (1 + np.exp(-logits)), 0.0)
        left = np.cumprod(1 - share, axis=1)  # behind each context
        came = np.concatenate([np.ones_like(left[:, :1]), left[:, :-1]], axis=1) * share * self.truth
        unheard = left[:, -1:] * UNHEARD
        total = came.sum(1, keepdims=True) + unheard
        behind = np.cumsum(came[:, ::-1], axis=1)[:, ::-1] - came + unheard
        return came / total, behind / total


def _observe(guesser: Guesser, texts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> _Observed:
    rows: list[list[tuple[float, ...]]] = []
    for before, predicted in texts:
        reader, ids = Guesser(guesser.table, guesser.weights), [*before, *predicted]
        for place in range(max(len(before), 1), len(ids)):
            reader.read(ids[:place])
            rows.append([])
            for source, level, counts in reader.matches(ids[max(0, place - _CONTEXT) : place]):
                total = sum(counts.values())
                truth = counts.get(ids[place], 0) / total
                rows[-1].append((1.0, source, level, 1.0, log(total), log(len(counts)), truth))
    table = np.zeros((len(rows), max(map(len, rows), default=0), 7))
    for row, found in zip(table, rows, strict=True):
        if found:
            row[: len(found)] = found
    valid, source, level = table[..., 0] > 0, table[..., 1].astype(np.intp), table[..., 2].astype(np.intp)
    return _Observed(valid, source, level, table[..., 3:6], table[..., 6])


def logistic(
    features: Floats, right: Floats, wrong: Floats, *, prior: NDArray[np.float32], start: Floats, steps: int = 50
) -> Floats:
    """Logistic regression by Newton's method.

    Args:
        features: [N, F].
        right, wrong: [N] how often each row succeeded and failed; fractions count as such.
        prior: [F] mean of a normal prior with deviation 1.
        start: [F] where the search begins.
    """
    weights = start.copy()
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (right - (right + wrong) * chance) - (weights - prior)
        spread = (right + wrong) * chance * (1 - chance)
        curvature = features.T @ (features * spread[:, None]) + np.eye(len(weights))
        step = np.linalg.solve(curvature, slope)
        weights += step / max(1.0, float(np.abs(step).max()))  # at most 1: far from the top the parabola misleads
        if np.abs(step).max() < 1e-8:
            break
    return weights
