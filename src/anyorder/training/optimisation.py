"""What is optimised how: the numbers of a run, checked once, and the optimiser made of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from anyorder.errors import ParameterError
from anyorder.training.schedules import ScheduleName, cosine, warmed, wsd

Precision = Literal["network", "bfloat16"]


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """AdamW over the parameters that require a gradient.

    Raises:
        ParameterError: a number is out of its range, or warm-up and decay do not fit into the run.
    Source: AdamW, arXiv:1711.05101.
    """

    steps: int
    """Optimiser steps of the whole run."""
    batch_rows: int
    """Rows of a step, over all processes."""
    micro_rows: int | None = None
    """Rows of one forward and backward in one process; None: all that the process has. Gradients are added up."""
    lr: float
    """Peak of the learning rate."""
    schedule: ScheduleName = "cosine"
    """"cosine", "wsd" (warm-up, stable, decay) or "constant" (warm-up only)."""
    warmup: int = 0
    """Steps of the warm-up."""
    decay: int = 0
    """Steps of the decay at the end; "wsd" only."""
    floor: float = 0.0
    """Share of the peak at the end."""
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    """Of matrices; vectors (norms, biases, a mask embedding) are never decayed."""
    clip: float | None = 1.0
    """Largest norm of the whole gradient; None: not clipped."""
    seed: int = 0
    """Of `StepDraws`."""
    ema: float | None = None
    """Decay of the moving average of the parameters (`ema.Average`); None: there is none."""
    precision: Precision = "network"
    """What parameters compute in: "network" is the dtype that they have; with "bfloat16" the optimiser keeps float32
    originals, their moments and the sum of their gradients."""

    def __post_init__(self) -> None:
        wrong = [
            f"`{name}` must be {allowed}, got {getattr(self, name)!r}"
            for name, (good, allowed) in self._rules().items()
            if not good
        ]
        if wrong:
            raise ParameterError("; ".join(wrong), param=wrong[0].split("`")[1])

    def _rules(self) -> dict[str, tuple[bool, str]]:
        rest = self.steps - self.warmup
        return {
            "steps": (self.steps >= 1, "at least 1"),
            "batch_rows": (self.batch_rows >= 1, "at least 1"),
            "micro_rows": (self.micro_rows is None or self.micro_rows >= 1, "at least 1 (or None for all rows)"),
            "lr": (self.lr > 0, "positive"),
            "schedule": (self.schedule in ("cosine", "wsd", "constant"), "one of cosine, wsd, constant"),
            "warmup": (0 <= self.warmup <= self.steps, f"in 0 .. steps ({self.steps})"),
            "decay": (
                0 <= self.decay <= rest and bool(self.decay) == (self.schedule == "wsd"),
                f"1 .. steps - warmup ({rest}) with schedule 'wsd', and left out with the others",
            ),
            "floor": (0 <= self.floor <= 1, "in [0, 1]"),
            "betas": (all(0 <= beta < 1 for beta in self.betas), "two numbers in [0, 1)"),
            "eps": (self.eps > 0, "positive"),
            "weight_decay": (self.weight_decay >= 0, "at least 0"),
            "ema": (self.ema is None or 0 < self.ema < 1, "in (0, 1) (or None)"),
            "precision": (self.precision in ("network", "bfloat16"), "'network' or 'bfloat16'"),
            "clip": (self.clip is None or self.clip > 0, "positive (or None)"),
        }

    def lr_at(self, step: int) -> float:
        """The learning rate of a step; the first one is 0."""
        match self.schedule:
            case "cosine":
                factor = cosine(step, steps=self.steps, warmup=self.warmup, floor=self.floor)
            case "wsd":
                factor = wsd(step, steps=self.steps, warmup=self.warmup, decay=self.decay, floor=self.floor)
            case "constant":
                factor = warmed(step, self.warmup)
        return self.lr * factor


FIXED = ("seed", "batch_rows", "ema", "precision")
"""What cannot change when a run is resumed."""


def check_same(now: Optimisation, before: Mapping[str, Any], folder: Path) -> None:
    """Compare with the settings that a run was begun with; warns of what has changed and may.

    Args:
        before: `asdict` of them, as JSON gives it back.
        folder: of the run, for the message.
    Raises:
        ParameterError: something has changed that cannot.
    """
    changes = {
        name: f"{name} was {before.get(name)!r}, now {value!r}"
        for name, value in json.loads(json.dumps(asdict(now))).items()
        if before.get(name) != value
    }
    fixed = [text for name, text in changes.items() if name in FIXED]
    if fixed:
        raise ParameterError(f"{folder} was begun otherwise: {'; '.join(fixed)}; keep that, or name another folder")
    if changes:
        warnings.warn(f"{folder} goes on with other settings: {'; '.join(changes.values())}", stacklevel=3)


def adamw(parameters: Mapping[str, nn.Parameter], settings: Optimisation) -> torch.optim.AdamW:
    """The optimiser of trained parameters, matrices with weight decay and the rest without.

    Raises:
        ParameterError: there is no parameter.
    """
    if not parameters:
        raise ParameterError("the network has no parameter that requires a gradient; load it with pack=False")
    matrices = [parameter for parameter in parameters.values() if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters.values() if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=settings.lr,
        betas=settings.betas,
        eps=settings.eps,
        fused=True,
    )
