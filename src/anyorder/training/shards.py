"""Tensors that may lie in shards over several processes: as a whole, and filled from a whole."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard


def whole(value: Tensor) -> Tensor:
    """The whole tensor on the CPU, in every process; all of them must ask."""
    value = value.detach()
    return (value.full_tensor() if isinstance(value, DTensor) else value).cpu()


def local(value: Tensor) -> Tensor:
    """What this process has of it; the same memory."""
    return value.to_local() if isinstance(value, DTensor) else value


@torch.no_grad()
def fill(target: Tensor, value: Tensor) -> None:
    """Copy a whole tensor in; each process keeps its own shard.

    Args:
        target: not sharded, or along one dimension of a mesh of one dimension.
        value: of the shape of the whole target, on the CPU.
    """
    if isinstance(target, DTensor):
        (placement,), mesh = target.placements, target.device_mesh
        assert isinstance(placement, Shard)
        own = target.to_local()
        parts = value.chunk(mesh.size(), placement.dim)
        if mesh.get_local_rank() < len(parts):  # a short tensor does not reach the last processes
            own.copy_(parts[mesh.get_local_rank()])
    else:
        target.copy_(value)
