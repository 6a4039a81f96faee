"""The tensors of a run, written to a checkpoint's folder and filled in again, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from anyorder.errors import TrainingError
from anyorder.models.load.write import write_safetensors
from anyorder.training.checkpoint import Checkpoint
from anyorder.training.shards import fill, whole

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
"""What AdamW keeps of a parameter."""
Tensors = Mapping[str, Mapping[str, Tensor]]
"""File name without suffix -> tensors by name."""


def tensors_of(
    parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, average: Mapping[str, Tensor] | None
) -> Tensors:
    """The live tensors of a run; an optimiser that has not stepped yet gets its moments."""
    moments = {
        f"{name}.{key}": value
        for name, parameter in parameters.items()
        for key, value in _moments(optimizer, parameter).items()
    }
    found: dict[str, Mapping[str, Tensor]] = {"parameters": parameters, "optimizer": moments}
    return found if average is None else {**found, "average": average}


def write(folder: Path | None, tensors: Tensors) -> None:
    """Write every file; in a process without a folder, only help to gather what is sharded."""
    for name, values in tensors.items():
        if folder is None:
            for value in values.values():
                whole(value)
            continue
        dtypes = [value.dtype for value in values.values()]
        write_safetensors(
            folder / f"{name}.safetensors",
            {key: tuple(value.shape) for key, value in values.items()},
            max(dtypes, key=lambda dtype: dtype.itemsize),  # holds the others exactly
            lambda key, values=values: whole(values[key]),
        )


def restore(checkpoint: Checkpoint, tensors: Tensors) -> None:
    """Fill a checkpoint's tensors in.

    Raises:
        TrainingError: it is of another network.
    """
    for name, values in tensors.items():
        stored = checkpoint.tensors(name)
        if {key: value.shape for key, value in stored.items()} != {key: value.shape for key, value in values.items()}:
            raise TrainingError(
                f"{checkpoint.folder} is of another network: {name}.safetensors does not fit; name another folder"
            )
        for key, value in values.items():
            fill(value, stored[key])


def _moments(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, Tensor]:
    state = optimizer.state[parameter]
    if not state:
        state["step"] = torch.zeros((), device=parameter.device)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    return {key: state[key] for key in MOMENTS}
