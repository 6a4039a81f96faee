"""What the trainer asks of others: where rows come from, and what is to be learned from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from anyorder.training.batch import Batch
from anyorder.training.noise import StepDraws
from anyorder.training.passes import TrainingPass

Objective = Callable[[Batch, StepDraws], TrainingPass]
"""From the clean rows of a step and its random numbers to a pass. All its randomness must come from the numbers, and
what depends on the step from `StepDraws.step`: then a run can be resumed anywhere."""

Publish = Callable[[Path, Mapping[str, Tensor]], None]
"""Writes a model for others to load: an empty folder, and the trained parameters by their names in the network, on the
CPU."""


class Rows(Protocol):
    """Clean rows by number; `training.data` has two kinds."""

    length: int
    """Tokens of a row."""

    def batch(self, start: int, count: int) -> Batch:
        """Rows number start .. start + count - 1, on the CPU; asked for in rising order."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able; with the number of the next row it is all that later batches depend on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The counterpart of `state_dict`."""
        ...
