"""Several objectives in one run: each step is one of them, by shares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from anyorder.errors import ParameterError
from anyorder.training.batch import Batch
from anyorder.training.interfaces import Objective
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass

_GOLDEN = 0.6180339887498949
"""The golden ratio's fractional part: its multiples modulo 1 fill [0, 1) as evenly as any."""


def mixture(objectives: Sequence[tuple[float, Objective]]) -> Objective:
    """An objective that is one of several in each step, by the number of the step alone.

    Steps are dealt out evenly (a low-discrepancy sequence, not independent draws): among any n steps in a row, each
    objective comes within a few steps of its share of n.

    Args:
        objectives: (share, objective); shares are relative to their sum.
    Raises:
        ParameterError: there is none, or a share is not positive.
    """
    if not objectives or any(not share > 0 for share, _ in objectives):
        raise ParameterError(
            f"a mixture needs objectives with positive shares, got {[share for share, _ in objectives]}"
        )
    ends = list(accumulate(share for share, _ in objectives))

    def mixed(batch: Batch, draws: StepDraws) -> TrainingPass:
        place = (draws.step * _GOLDEN % 1.0) * ends[-1]
        index = next((number for number, end in enumerate(ends) if place < end), len(ends) - 1)
        return objectives[index][1](batch, draws)

    return mixed
