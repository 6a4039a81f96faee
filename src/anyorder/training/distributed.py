"""The processes of a run: one alone, or those that `torchrun` started, which share the network in shards (FSDP2)."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from anyorder.errors import ParameterError
from anyorder.models.load.place import choose_device
from anyorder.models.transformer import Layer


@dataclass(frozen=True)
class Team:
    """A process and those that it works with."""

    device: torch.device
    rank: int = 0
    size: int = 1
    mesh: DeviceMesh | None = None
    """Of all of them; None: there is only this one."""

    @property
    def leads(self) -> bool:
        """The process that logs and writes."""
        return self.rank == 0

    def own(self, rows: int) -> slice:
        """The rows of a batch that this process works on.

        Raises:
            ParameterError: they cannot be shared equally.
        """
        if rows % self.size:
            raise ParameterError(
                f"`batch_rows` must be a multiple of the {self.size} processes, got {rows}", param="batch_rows"
            )
        share = rows // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes; all of them must ask."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def most(self, *numbers: int) -> list[int]:
        """The largest of each number over all processes; all of them must ask."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, device=self.device)
        dist.all_reduce(values, dist.ReduceOp.MAX)
        return values.tolist()

    def agree(self, number: int) -> int:
        """The number, at least 0, that the leading process says; all of them must ask."""
        return self.most(number if self.leads else 0)[0]


@contextmanager
def team(device: str | torch.device = "auto") -> Generator[Team]:
    """The team that `torchrun` started this process for, or this process alone.

    Args:
        device: as in `load`; with several GPU processes each takes the one of its local rank.

    Processes that have done their work leave together. One that ended behind its last collective, while others still
    write, could die with `terminate called without an active exception`: the threads of gloo hold the tensors of a
    collective a moment longer than its caller, and letting go of them needs the interpreter.
    """
    chosen = choose_device(device)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team(chosen)
        return
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Team(chosen, dist.get_rank(), size, init_device_mesh(chosen.type, (size,)))
        dist.barrier()
    finally:
        dist.destroy_process_group()


def shard(scored: nn.Module, team: Team, compute: torch.dtype | None) -> None:
    """Share the parameters out: each layer is a group, what is left another one. Gradients are averaged.

    Args:
        scored: from a pass to its loss; holds the network.
        compute: parameters are cast to it for the forward and backward pass; None: they stay as they are.
    """
    policy = MixedPrecisionPolicy(
        param_dtype=compute, reduce_dtype=torch.float32 if compute else None, cast_forward_inputs=False
    )
    for module in [*(layer for layer in scored.modules() if isinstance(layer, Layer)), scored]:
        fully_shard(module, mesh=team.mesh, mp_policy=policy)
