"""The training loop: step, log, save; stopped at any time, and resumed as if it had never stopped."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.errors import ParameterError
from anyorder.models.transformer import Transformer
from anyorder.rates import matrix_rate
from anyorder.training import checkpoint, snapshot
from anyorder.training.distributed import Team
from anyorder.training.interfaces import Objective, Publish, Rows
from anyorder.training.interrupts import Interrupts
from anyorder.training.log import Log
from anyorder.training.memory import keep_freed_memory
from anyorder.training.meter import Meter
from anyorder.training.optimisation import Optimisation, check_same
from anyorder.training.progress import Bar
from anyorder.training.stepper import Stepper
from anyorder.training.trainee import Trainee


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a run is run; nothing of this changes what is learned.

    Raises:
        ParameterError: a number is not positive.
    """

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
    recompute: bool = False
    """Activation checkpointing: keep only the inputs of every layer, and compute it again in the backward pass."""
    progress: bool = False
    """Show a bar where the standard error output is a terminal."""
    measure_rate: bool = True
    """Time a matrix product when the run begins (0.2 s), so that the log can say which share of it is reached."""

    def __post_init__(self) -> None:
        for name in ("log_every", "save_steps", "save_s", "keep"):
            if getattr(self, name) <= 0:
                raise ParameterError(f"`{name}` must be positive, got {getattr(self, name)}", param=name)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended."""

    step: int
    """Steps that are done; `Optimisation.steps` if all are."""
    signal: str | None
    """Name of the signal that ended it early; None: it is finished."""
    tokens: int
    """Clean tokens trained on, padding left out; over all parts of the run."""
    seconds: float
    """Over all parts of the run."""
    tokens_per_second: float
    """Over this part of the run; 0 if there was nothing left to do."""
    matrix_share: float | None
    """Share of the machine's rate of matrix products that `training_flops` reach, over this part of the run."""


class Trainer:
    """One run of one network in one folder.

    Args:
        network: a `Transformer` or a `Trainee`; its parameters that require a gradient are trained in place.
        rows: clean rows; step s takes rows s * batch_rows and following.
        objective: asked once per step for the whole batch, on the CPU.
        optimisation: what is learned how.
        folder: of the run; `log.jsonl` and `checkpoints/step-N` are written there.
        running: how often to log and save.
        team: the processes that share the work (`distributed.team`); None: this one alone.
        publish: writes the model into every checkpoint (`step-N/model`), for others to load.
    Raises:
        ParameterError: the network has nothing to train, or its processes cannot share a batch.
    """

    def __init__(
        self,
        network: Transformer | Trainee,
        rows: Rows,
        objective: Objective,
        optimisation: Optimisation,
        folder: str | Path,
        running: Running | None = None,
        *,
        team: Team | None = None,
        publish: Publish | None = None,
    ) -> None:
        self.network = network
        self.rows = rows
        self.optimisation = optimisation
        self.folder = Path(folder)
        self.running = running or Running()
        self.team = team or Team(next(network.parameters()).device)
        self.publish = publish
        self.stepper = Stepper(network, rows, objective, optimisation, self.team, recompute=self.running.recompute)
        self.step = 0
        """Steps that are done."""
        self.tokens = 0
        self.seconds = 0.0

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.folder / "checkpoints"

    def weights(self) -> dict[str, Tensor]:
        """The trained parameters by name in the network, whole and on the CPU: their average if there is one.

        With several processes, all of them must ask.
        """
        return self.stepper.weights()

    def run(self) -> Outcome:
        """Train to the last step, or until Ctrl-C or SIGTERM, and leave a checkpoint of where it ended.

        With several processes a signal and the clock are heeded when a line of the log is due.

        Raises:
            TrainingError: a loss is no number, or a checkpoint cannot be written or read.
            ParameterError: the folder holds another run.
        """
        if self.team.device.type == "cpu":
            keep_freed_memory()
        self._resume()
        self.network.train()
        meter = Meter(self.step, self.team, self._matrix_rate())
        log = Log(self.folder / "log.jsonl", self.step, writes=self.team.leads)
        saved = time.monotonic()
        stop = 0
        with Interrupts() as interrupts, self._bar() as bar:
            while self.step < self.optimisation.steps and not stop:
                step = self.stepper.step(self.step)
                self.step, self.tokens = self.step + 1, self.tokens + step.tokens
                meter.add(step)
                bar.step(self.step)
                stop, logs, saves = self._due(interrupts.number, time.monotonic() - saved)
                if logs:
                    record = self._record(meter)
                    log.add(record)
                    bar.show(record)
                if saves:
                    self._save(meter)
                    saved = time.monotonic()
        self.seconds += meter.seconds
        speed = meter.overall()
        return Outcome(
            step=self.step,
            signal=signal.Signals(stop).name if stop and self.step < self.optimisation.steps else None,
            tokens=self.tokens,
            seconds=self.seconds,
            tokens_per_second=speed["tokens_per_second"],
            matrix_share=speed.get("matrix_share"),
        )

    def _due(self, signalled: int, unsaved_s: float) -> tuple[int, bool, bool]:
        """Signal to stop for or 0; whether to log; whether to save."""
        last = self.step == self.optimisation.steps
        logs = last or self.step % self.running.log_every == 0
        stop = late = 0
        if logs or self.team.size == 1:
            stop, late = self.team.most(signalled, int(unsaved_s >= self.running.save_s))
        saves = last or bool(stop or late) or self.step % self.running.save_steps == 0
        return stop, logs or saves, saves

    def _matrix_rate(self) -> float | None:
        if not self.running.measure_rate:
            return None
        half = self.optimisation.precision == "bfloat16"
        dtype = torch.bfloat16 if half else next(self.network.parameters()).dtype
        return matrix_rate(dtype, self.team.device) * self.team.size

    def _bar(self) -> Bar:
        return Bar(self.step, self.optimisation.steps, shown=self.running.progress and self.team.leads)

    def _record(self, meter: Meter) -> dict[str, Any]:
        last = max(checkpoint.steps(self.checkpoints), default=None)
        kept = "there is no checkpoint yet" if last is None else f"the checkpoint of step {last} is kept"
        return {
            "step": self.step,
            "lr": self.optimisation.lr_at(self.step - 1),
            "tokens": self.tokens,
            "seconds": self.seconds + meter.seconds,
            **meter.read(kept),
        }

    def _save(self, meter: Meter) -> None:
        tensors = self.stepper.tensors()
        model = self.weights() if self.publish is not None else {}
        state = {
            "optimisation": asdict(self.optimisation),
            "rows": self.rows.state_dict(),
            "tokens": self.tokens,
            "seconds": self.seconds + meter.seconds,
        }

        def fill(folder: Path) -> None:
            snapshot.write(folder, tensors)
            if self.publish is not None:
                (folder / "model").mkdir()
                self.publish(folder / "model", model)

        if self.team.leads:
            checkpoint.save(self.checkpoints, self.step, state, fill, keep=self.running.keep)
        else:
            snapshot.write(None, tensors)

    def _resume(self) -> None:
        if not self.running.resume and checkpoint.steps(self.checkpoints):
            raise ParameterError(f"{self.checkpoints} holds a run; resume it, or name another folder", param="resume")
        found = checkpoint.newest(self.checkpoints) if self.team.leads else None
        step = self.team.agree(0 if found is None else found.step)
        if not step:
            return
        found = found or checkpoint.load(self.checkpoints / f"step-{step}")
        check_same(self.optimisation, found.state["optimisation"], self.folder)
        self.stepper.restore(found)
        self.rows.load_state_dict(found.state["rows"])
        self.step, self.tokens, self.seconds = step, found.state["tokens"], found.state["seconds"]
