"""What happened since the last line of the log, and since the run began or was resumed."""

from __future__ import annotations

import math
import time

import torch

from anyorder.errors import TrainingError
from anyorder.training.distributed import Team
from anyorder.training.stepper import Step


class Meter:
    """Figures of the steps of a run; losses stay on the device until a line of the log is due.

    Args:
        done: steps that are done.
        rate: operations per second of the machine's matrix products; None: not measured.
    """

    def __init__(self, done: int, team: Team, rate: float | None) -> None:
        self.team = team
        self.rate = rate
        self.done = done
        self.steps: list[Step] = []
        self.since = self.begun = time.monotonic()
        self.tokens, self.flops = 0, 0.0

    @property
    def seconds(self) -> float:
        """Since the meter was made."""
        return time.monotonic() - self.begun

    def add(self, step: Step) -> None:
        """Count a step in."""
        self.steps.append(step)
        self.tokens += step.tokens
        self.flops += step.flops

    def read(self, kept: str) -> dict[str, float]:
        """Means over the steps since the last reading, for the log; waits for the device.

        Args:
            kept: what is left of the run, for the message.
        Raises:
            TrainingError: a loss or norm is no finite number; it names the first such step.
        """
        losses = self.team.total(torch.stack([step.loss for step in self.steps])).tolist()
        norms = torch.stack([step.norm for step in self.steps]).tolist()
        for number, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=self.done + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise TrainingError(
                    f"step {number}: the loss is {loss:g} and the norm of its gradient {norm:g}; {kept}. "
                    "Lower `lr` or `clip`, lengthen `warmup`, or look at the data of that step"
                )
        now = time.monotonic()
        tokens, flops = sum(step.tokens for step in self.steps), sum(step.flops for step in self.steps)
        found = {
            "loss": sum(losses) / len(losses),
            "grad_norm": sum(norms) / len(norms),
            **self._speed(tokens, flops, now - self.since),
        }
        self.done, self.steps, self.since = self.done + len(losses), [], now
        return found

    def overall(self) -> dict[str, float]:
        """Speed since the meter was made."""
        return self._speed(self.tokens, self.flops, self.seconds)

    def _speed(self, tokens: int, flops: float, seconds: float) -> dict[str, float]:
        share = {} if self.rate is None else {"matrix_share": flops / seconds / self.rate}
        return {"tokens_per_second": tokens / seconds, **share}
