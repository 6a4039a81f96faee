"""Which settings are within a budget of the best, decided as samples come, with an error rate that holds throughout.

Every ordered pair of settings is bet on twice, sample by sample: once that the first leads the second by more than the
budget, once that it does not. A capital that would have grown `pairs / error` times is evidence that can be looked at
after every sample and still errs with at most that probability (Ville's inequality), whatever the distribution of
scores in [0, 1]. Only one of the two bets of a pair can be wrong, so all decisions are right together with probability
1 - error or more.

Source: I. Waudby-Smith and A. Ramdas, "Estimating means of bounded random variables by betting", 2024; the capital here
is the mean over a fixed grid of stakes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Decision = Literal["in", "out", "open"]

_STAKES = np.geomspace(0.01, 0.98, 24)
"""Shares of the largest stake that cannot lead into debt."""


class Race:
    """The evidence so far.

    Args:
        count: number of settings.
        budget: how much worse than the best is good enough, in score; in (0, 1).
        error: probability of any wrong decision, at most; in (0, 1).
    """

    def __init__(self, count: int, *, budget: float, error: float) -> None:
        self.count = count
        self._middle = (1 + budget) / 2  # the budget on the scale of (difference + 1) / 2
        self._needed = math.log(max(1, count * (count - 1)) / error)
        self._beyond = np.zeros((count, count, len(_STAKES)))  # log capital of the bets that the row leads too far
        self._within = np.zeros((count, count, len(_STAKES)))
        self._is_beyond = np.zeros((count, count), dtype=bool)
        self._is_within = np.eye(count, dtype=bool)
        self._out: set[int] = set()

    def observe(self, scores: Mapping[int, float]) -> None:
        """Take the scores, in [0, 1], of one prompt under the settings that were active."""
        present = np.array(sorted(scores), dtype=int)
        values = np.array([scores[setting] for setting in present])
        lead = (values[:, None] - values[None, :] + 1) / 2 - self._middle  # how far the row leads the column
        pairs = np.ix_(present, present)
        self._beyond[pairs] += np.log1p((lead / self._middle)[..., None] * _STAKES)
        self._within[pairs] += np.log1p((-lead / (1 - self._middle))[..., None] * _STAKES)
        self._is_beyond[pairs] |= self._is_enough(self._beyond[pairs])
        self._is_within[pairs] |= self._is_enough(self._within[pairs])
        self._out.update(map(int, np.flatnonzero(self._is_beyond.any(0))))

    def _is_enough(self, capital: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Has the mean of the capitals grown as much as needed?"""
        top = capital.max(-1)
        return top + np.log(np.exp(capital - top[..., None]).mean(-1)) >= self._needed

    def decision(self, setting: int) -> Decision:
        """Is the setting's mean score within the budget of the best setting's?"""
        if setting in self._out:
            return "out"
        return "open" if self._unsettled(setting) else "in"

    def _unsettled(self, setting: int) -> list[int]:
        """Settings that may still turn out to lead this one by more than the budget."""
        return [j for j in range(self.count) if j not in self._out and not self._is_within[j, setting]]

    def active(self) -> list[int]:
        """Settings whose next sample can decide something."""
        open_ = [setting for setting in range(self.count) if self.decision(setting) == "open"]
        return sorted({*open_, *(rival for setting in open_ for rival in self._unsettled(setting))})
