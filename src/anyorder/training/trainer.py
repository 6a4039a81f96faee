"""The training loop: rows, objective, gradient, step; logged, saved, and resumed as if it had never stopped."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from anyorder.errors import ParameterError, TrainingError
from anyorder.models.transformer import Transformer
from anyorder.training import checkpoint, parts
from anyorder.training.batch import PADDING, Batch
from anyorder.training.interrupts import Interrupts
from anyorder.training.log import Log
from anyorder.training.noise import StepDraws
from anyorder.training.optimisation import Optimisation, adamw
from anyorder.training.passes import TrainingPass, loss
from anyorder.training.trainee import Trainee

Objective = Callable[[Batch, StepDraws], TrainingPass]
"""From the clean rows of a step and its random numbers to a pass; all its randomness must come from the numbers."""


class Rows(Protocol):
    """Where rows come from; `training.data` has two."""

    length: int

    def batch(self, start: int, count: int) -> Batch:
        """Rows number start .. start + count - 1, on the CPU."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able; with the number of the next row it is all that `batch` depends on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The counterpart of `state_dict`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a run is run; nothing of this changes what is learned."""

    log_every: int = 10
    """Steps from one line of the log to the next; only then are losses looked at, and a GPU waited for."""
    save_steps: int = 500
    """Steps from one checkpoint to the next."""
    save_s: float = 600.0
    """Seconds after which a checkpoint is written even if the steps have not come together."""
    keep: int = 3
    """Checkpoints that stay."""
    resume: bool = True
    """Go on from the newest checkpoint in the folder; False refuses a folder that has any."""

    def __post_init__(self) -> None:
        for name in ("log_every", "save_steps", "keep", "save_s"):
            if getattr(self, name) <= 0:
                raise ParameterError(f"`{name}` must be positive, got {getattr(self, name)}", param=name)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    step: int
    """Steps that are done; `Optimisation.steps` if all are."""
    signal: str | None
    """Name of the signal that ended it early; None: it is finished."""
    seconds: float
    """Of training, over all its parts."""
    tokens: int
    """Clean tokens trained on, padding left out."""


class Trainer:
    """One run of one network in one folder.

    Args:
        network: its parameters that require a gradient are trained in place, in their
            own dtype and on their own device.
        rows: clean rows; step s takes rows s * batch_rows and following.
        objective: asked once per step, for the whole batch on the CPU.
        optimisation: what is learned how.
        folder: of the run; `log.jsonl` and `checkpoints/step-N` are written there.
        running: how often to log and save.
    Raises:
        ParameterError: the network has nothing to train, or the folder holds another run.
    """

    def __init__(
        self,
        network: Transformer | Trainee,
        rows: Rows,
        objective: Objective,
        optimisation: Optimisation,
        folder: str | Path,
        running: Running | None = None,
    ) -> None:
        self.network = network
        self.rows = rows
        self.objective = objective
        self.optimisation = optimisation
        self.folder = Path(folder)
        self.running = running or Running()
        self.parameters = {name: value for name, value in network.named_parameters() if value.requires_grad}
        self.optimizer = adamw(self.parameters, optimisation)
        self.device = next(iter(self.parameters.values())).device
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    def run(self) -> Outcome:
        """Train to the last step, or until Ctrl-C or SIGTERM, and leave a checkpoint of where it ended.

        Raises:
            TrainingError: a loss is no number, or a checkpoint cannot be written or read.
        """
        self._resume()
        log = Log(self.folder / "log.jsonl", self.step)
        self.network.train()
        meter = _Meter(self.step)
        saved, saved_at = self.step, time.monotonic()
        with Interrupts() as interrupts:
            while self.step < self.optimisation.steps and interrupts.name is None:
                began = time.monotonic()
                meter.add(*self._step())
                self.seconds += time.monotonic() - began
                ends = self.step == self.optimisation.steps or interrupts.name is not None
                due = self.step % self.running.save_steps == 0 or time.monotonic() - saved_at >= self.running.save_s
                if ends or due or self.step % self.running.log_every == 0:
                    log.add(meter.record(self))
                if ends or due:
                    self._save()
                    saved, saved_at = self.step, time.monotonic()
            if self.step != saved:
                self._save()
        return Outcome(step=self.step, signal=interrupts.name, seconds=self.seconds, tokens=self.tokens)

    def _step(self) -> tuple[Tensor, Tensor, int]:
        """One optimiser step -> loss and norm of the gradient, on the device, and the number of tokens."""
        settings = self.optimisation
        batch = self.rows.batch(self.step * settings.batch_rows, settings.batch_rows)
        whole = self.objective(batch, StepDraws(settings.seed, self.step))
        total = torch.zeros((), device=self.device)
        for rows in _micro(settings.batch_rows, settings.micro_rows):
            part = loss(self.network, parts.part(whole, rows, self.device))
            part.backward()
            total += part.detach()
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), settings.clip or math.inf)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr_at(self.step)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        tokens = int((batch.documents != PADDING).sum())
        self.tokens += tokens
        return total, norm, tokens

    def _save(self) -> None:
        tensors = {
            "parameters": {name: value.detach().cpu() for name, value in self.parameters.items()},
            "optimizer": {
                f"{name}.{key}": value.detach().cpu()
                for name, parameter in self.parameters.items()
                for key, value in self.optimizer.state[parameter].items()
            },
        }
        state = {
            "optimisation": asdict(self.optimisation),
            "rows": self.rows.state_dict(),
            "tokens": self.tokens,
            "seconds": self.seconds,
        }
        checkpoint.save(self.checkpoints, checkpoint.Checkpoint(self.step, state, tensors), keep=self.running.keep)

    def _resume(self) -> None:
        if not self.running.resume and checkpoint.steps(self.checkpoints):
            raise ParameterError(f"{self.checkpoints} holds a run; resume it, or name another folder", param="resume")
        found = checkpoint.newest(self.checkpoints)
        if found is None:
            return
        self._check(found)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(found.tensors["parameters"][name])
                keys = ("step", "exp_avg", "exp_avg_sq")
                kept = {key: found.tensors["optimizer"][f"{name}.{key}"] for key in keys}
                self.optimizer.state[parameter] = {key: value.to(self.device) for key, value in kept.items()}
        self.rows.load_state_dict(found.state["rows"])
        self.step = found.step
        self.tokens, self.seconds = found.state["tokens"], found.state["seconds"]

    def _check(self, found: checkpoint.Checkpoint) -> None:
        for name in ("seed", "batch_rows"):
            before, now = found.state["optimisation"][name], getattr(self.optimisation, name)
            if before != now:
                raise ParameterError(
                    f"the run in {self.folder} was begun with {name} {before}, got {now}; "
                    "keep it, or name another folder",
                    param=name,
                )
        shapes = {name: tuple(value.shape) for name, value in found.tensors["parameters"].items()}
        if shapes != {name: tuple(value.shape) for name, value in self.parameters.items()}:
            raise TrainingError(f"the checkpoints in {self.checkpoints} are of another network; name another folder")


def _micro(count: int, size: int | None) -> Iterator[slice]:
    size = size or count
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


class _Meter:
    """What happened since the last line of the log; values stay on the device until one is asked for."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.values: list[Tensor] = []
        self.tokens = 0
        self.began = time.monotonic()

    def add(self, value: Tensor, norm: Tensor, tokens: int) -> None:
        self.values.append(torch.stack((value, norm)))
        self.tokens += tokens

    def record(self, trainer: Trainer) -> dict[str, Any]:
        """A line of the log.

        Raises:
            TrainingError: a loss or gradient is no finite number.
        """
        values = torch.stack(self.values).tolist()
        for step, (mean, norm) in enumerate(values, start=self.step + 1):
            if not (math.isfinite(mean) and math.isfinite(norm)):
                last = max(checkpoint.steps(trainer.checkpoints), default=None)
                kept = f"the checkpoint of step {last} is kept" if last is not None else "there is no checkpoint yet"
                raise TrainingError(
                    f"step {step}: the loss is {mean:g} and the norm of its gradient {norm:g}; {kept}. "
                    "Lower `lr` or `clip`, lengthen `warmup`, or look at the data of that step"
                )
        now = time.monotonic()
        record = {
            "step": trainer.step,
            "loss": sum(mean for mean, _ in values) / len(values),
            "lr": trainer.optimisation.lr_at(trainer.step - 1),
            "grad_norm": sum(norm for _, norm in values) / len(values),
            "tokens": trainer.tokens,
            "tokens_per_second": self.tokens / (now - self.began),
            "seconds": trainer.seconds,
        }
        self.step, self.values, self.tokens, self.began = trainer.step, [], 0, now
        return record
