from __future__ import annotations

from typing import Any

import pytest

from anyorder.errors import ParameterError
from anyorder.training.curriculum import BlockCurriculum


def lengths(**fields: Any) -> list[int]:
    curriculum = BlockCurriculum(**fields)
    return [curriculum.block_length(step) for step in range(curriculum.steps)]


def test_blocks_grow_stay_and_shrink() -> None:
    found = lengths(
        steps=12, warmup=(1, 4), warmup_steps=4, stable=64, decay=(32, 16, 8), decay_steps=6
    )  # fmt: skip
    assert found == [1, 1, 4, 4, 64, 64, 32, 32, 16, 16, 8, 8]


def test_steps_that_do_not_divide_are_shared_as_evenly_as_possible() -> None:
    assert lengths(steps=6, warmup=(1, 2, 4), warmup_steps=5, stable=8) == [1, 1, 2, 2, 4, 8]


def test_phases_may_be_missing_and_steps_may_run_on() -> None:
    assert lengths(steps=2, stable=4) == [4, 4]
    decayed = BlockCurriculum(steps=4, stable=8, decay=(4, 2), decay_steps=2)
    assert decayed.block_length(100) == 2, "a run that goes on keeps the length that it decodes with"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"warmup": (1, 2), "warmup_steps": 1}, "`warmup_steps` must be .* at least 1 for each of 2, got 1"),
        ({"warmup_steps": 1}, "`warmup_steps` must be 0 without lengths"),
        ({"decay": (1,)}, "`decay_steps` must be .* at least 1 for each of 1, got 0"),
        ({"stable": 0}, "must be positive integers"),
        ({"warmup": (1,), "warmup_steps": 5, "decay": (1,), "decay_steps": 6}, "more than all 10 steps"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        lengths(**{"steps": 10, "stable": 8, **fields})
