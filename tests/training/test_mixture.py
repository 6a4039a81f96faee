from __future__ import annotations

from collections import Counter

import pytest
from tests.training.runs import Counting, denoise

from anyorder.errors import ParameterError
from anyorder.training.batch import Batch
from anyorder.training.interfaces import Objective
from anyorder.training.mixture import mixture
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass

SHARES = (5.0, 3.0, 2.0)


def chosen(shares: tuple[float, ...], steps: range, seed: int = 0) -> list[int]:
    """Which objective each step asks."""
    asked: list[int] = []

    def numbered(number: int) -> Objective:
        def objective(batch: Batch, draws: StepDraws) -> TrainingPass:
            asked.append(number)
            return denoise(batch, draws)

        return objective

    mixed = mixture([(share, numbered(number)) for number, share in enumerate(shares)])
    batch = Counting().batch(0, 1)
    for step in steps:
        mixed(batch, StepDraws(seed, step))
    return asked


@pytest.mark.parametrize("start", [0, 1000])
def test_every_stretch_of_a_run_has_its_shares(start: int) -> None:
    counts = Counter(chosen(SHARES, range(start, start + 100)))
    for number, share in enumerate(SHARES):
        assert abs(counts[number] - 100 * share / 10) <= 2


def test_a_step_is_always_the_same_objective() -> None:
    assert chosen(SHARES, range(20))[7:] == chosen(SHARES, range(7, 20), seed=1)


def test_alone_it_is_always_asked() -> None:
    assert chosen((0.1,), range(5)) == [0] * 5


@pytest.mark.parametrize("shares", [(), (1.0, 0.0), (float("nan"),)])
def test_shares_must_be_positive(shares: tuple[float, ...]) -> None:
    with pytest.raises(ParameterError, match="a mixture needs objectives with positive shares"):
        mixture([(share, denoise) for share in shares])
