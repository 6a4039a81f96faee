"""The sequential decision: known cliffs are found, errors stay below the rate, and samples go where it is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from anyorder.sweep.race import Decision, Race


def raced(quality: Sequence[float], *, budget: float, most: int, seed: int) -> tuple[tuple[Decision, ...], list[int]]:
    """Decisions and samples per setting, on simulated right and wrong answers; half of the prompts are hard for all."""
    random, race, used = Random(seed), Race(len(quality), budget=budget, error=0.05), [0] * len(quality)
    for _ in range(most):
        active = race.active()
        if not active:
            break
        shared = random.random()
        draws = {k: shared if random.random() < 0.5 else random.random() for k in active}
        race.observe({k: float(draw < quality[k]) for k, draw in draws.items()})
        for k in active:
            used[k] += 1
    return tuple(race.decision(k) for k in range(len(quality))), used


@pytest.mark.parametrize(
    ("quality", "expected"),
    [
        ((0.9, 0.9, 0.88, 0.6, 0.2), ("in", "in", "in", "out", "out")),
        ((0.5, 0.9, 0.9, 0.7), ("out", "in", "in", "out")),  # the slowest need not be the best
        ((0.9, 0.3, 0.9), ("in", "out", "in")),  # nor quality fall from setting to setting
    ],
    ids=["cliff", "slow and bad", "not monotone"],
)
def test_a_known_cliff_is_found(quality: tuple[float, ...], expected: tuple[Decision, ...]) -> None:
    found = Counter(raced(quality, budget=0.12, most=1200, seed=seed)[0] for seed in range(100))
    assert found[expected] >= 95, found


def test_nothing_is_decided_wrongly_at_the_border_however_often_one_looks() -> None:
    """The second setting is a hair too bad. Looking after every sample at fixed-sample intervals would let it in, or
    the best of equals out, in far more than one of twenty runs."""
    decisions = [raced((0.8, 0.68), budget=0.11, most=600, seed=seed)[0] for seed in range(100)]
    assert sum(second == "in" for _, second in decisions) <= 5
    assert all(first != "out" for first, _ in decisions)
    equal = [raced((0.7, 0.7, 0.7), budget=0.02, most=300, seed=seed)[0] for seed in range(100)]
    assert sum("out" in found for found in equal) <= 5


def test_samples_go_where_the_decision_is_open() -> None:
    decisions, used = raced((0.9, 0.9, 0.8, 0.1), budget=0.12, most=2000, seed=1)
    assert decisions[3] == "out"
    assert used[3] < 40
    assert used[3] < used[0] / 5


def test_a_race_that_is_over_has_nobody_active() -> None:
    race = Race(2, budget=0.2, error=0.05)
    assert race.active() == [0, 1]
    for _ in range(60):
        race.observe({0: 1.0, 1: 0.0})
    assert (race.decision(0), race.decision(1)) == ("in", "out")
    assert race.active() == []


def test_one_setting_has_nobody_to_lose_to() -> None:
    assert Race(1, budget=0.1, error=0.05).decision(0) == "in"


def test_missing_scores_are_no_evidence() -> None:
    race = Race(3, budget=0.1, error=0.05)
    for _ in range(100):
        race.observe({0: 1.0, 2: 0.0})
    assert [race.decision(k) for k in range(3)] == ["open", "open", "out"]


def test_the_extremes_leave_no_debt() -> None:
    """A stake of all would make one bad sample final."""
    race = Race(2, budget=0.01, error=0.05)
    race.observe({0: 0.0, 1: 1.0})
    for _ in range(200):
        race.observe({0: 1.0, 1: 0.0})
    assert race.decision(1) == "out"
