"""One optimiser step: the rows of a batch, their objective, its gradient part by part, and AdamW."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from anyorder.models.transformer import Transformer
from anyorder.training import parts, snapshot
from anyorder.training.batch import PADDING
from anyorder.training.checkpoint import Checkpoint
from anyorder.training.distributed import Team
from anyorder.training.ema import Average
from anyorder.training.flops import training_flops
from anyorder.training.interfaces import Objective, Rows
from anyorder.training.learner import learner
from anyorder.training.noise import StepDraws
from anyorder.training.optimisation import Optimisation, adamw
from anyorder.training.shards import whole
from anyorder.training.trainee import Trainee


@dataclass(frozen=True)
class Step:
    """What a step did; tensors are on the device, and nobody has waited for them."""

    loss: Tensor
    """This process's part of the loss, before the step."""
    norm: Tensor
    """Of the whole gradient, before it is clipped."""
    tokens: int
    """Clean tokens of the whole batch, padding left out."""
    flops: float
    """Of the whole batch (`training_flops`)."""


class Stepper:
    """A network and what is needed to improve it; arguments as in `Trainer`."""

    def __init__(
        self,
        network: Transformer | Trainee,
        rows: Rows,
        objective: Objective,
        optimisation: Optimisation,
        team: Team,
        *,
        recompute: bool,
    ) -> None:
        self.rows = rows
        self.objective = objective
        self.optimisation = optimisation
        self.team = team
        self.own = team.own(optimisation.batch_rows)
        self.adapter = isinstance(network, Trainee)
        self.config = network.network.config if isinstance(network, Trainee) else network.config
        self.learner = learner(network, team, precision=optimisation.precision, recompute=recompute)
        self.optimizer = adamw(self.learner.parameters, optimisation)
        self.average = Average(self.learner.parameters, optimisation.ema) if optimisation.ema else None

    def step(self, number: int) -> Step:
        """Take step `number`; the first one is 0."""
        settings = self.optimisation
        batch = self.rows.batch(number * settings.batch_rows, settings.batch_rows)
        whole_pass = self.objective(batch, StepDraws(settings.seed, number))
        losses: list[Tensor] = []
        for rows in self._micro_batches():
            loss = self.learner.scored(parts.part(whole_pass, rows, self.team.device))
            (loss * self.team.size).backward()  # FSDP takes the mean over the processes, and the sum is wanted
            losses.append(loss.detach())
        norm = self._clip()
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr_at(number)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.learner.stepped()
        if self.average is not None:
            self.average.update(number + 1)
        return Step(
            loss=torch.stack(losses).sum(),
            norm=norm,
            tokens=int((batch.documents != PADDING).sum()),
            flops=training_flops(whole_pass, self.config, adapter=self.adapter),
        )

    def tensors(self) -> snapshot.Tensors:
        """All that a checkpoint must hold."""
        average = None if self.average is None else self.average.values
        return snapshot.tensors_of(self.learner.parameters, self.optimizer, average)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to where a checkpoint was written."""
        snapshot.restore(checkpoint, self.tensors())
        self.learner.stepped()

    def weights(self) -> dict[str, Tensor]:
        """The trained parameters, or their average, whole and on the CPU; every process must ask."""
        values = self.learner.parameters if self.average is None else self.average.values
        return {name: whole(value) for name, value in values.items()}

    def _micro_batches(self) -> Iterator[slice]:
        size = self.optimisation.micro_rows or self.optimisation.batch_rows
        for start in range(self.own.start, self.own.stop, size):
            yield slice(start, min(start + size, self.own.stop))

    def _clip(self) -> Tensor:
        """The norm of the gradient, which is scaled down where it is too large."""
        parameters = list(self.learner.parameters.values())
        norm = nn.utils.get_total_norm([value.grad for value in parameters if value.grad is not None])
        if self.optimisation.clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, self.optimisation.clip, norm)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm
