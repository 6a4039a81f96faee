"""The network as the loop sees it: a pass in, a loss out, and the parameters that the optimiser steps on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from anyorder.models.transformer import Layer, Transformer
from anyorder.training.conditioning import conditioned_loss
from anyorder.training.distributed import Team, shard
from anyorder.training.optimisation import Precision
from anyorder.training.passes import TrainingPass, loss
from anyorder.training.trainee import Trainee


class Scored(nn.Module):
    """A network and the loss of its passes, as one module: FSDP gathers parameters when a module is called."""

    def __init__(self, network: Transformer | Trainee) -> None:
        super().__init__()
        self.network = network

    def forward(self, p: TrainingPass) -> Tensor:
        return conditioned_loss(self.network, p) if p.conditioned else loss(self.network, p)


@dataclass(frozen=True)
class Learner:
    """A network that is being trained."""

    scored: Callable[[TrainingPass], Tensor]
    """From a pass to its loss; its backward pass adds to the gradients of `parameters`."""
    parameters: dict[str, nn.Parameter]
    """What the optimiser steps on, by name in the network."""
    stepped: Callable[[], None]
    """To be called whenever `parameters` have changed."""


def learner(network: Transformer | Trainee, team: Team, *, precision: Precision, recompute: bool) -> Learner:
    """Prepare a network in place.

    Args:
        recompute: keep only the inputs of every layer and compute the rest once more in the backward pass.
    """
    if recompute:
        for module in network.modules():
            if isinstance(module, Layer):
                module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    scored = Scored(network)
    if team.size > 1:
        shard(scored, team, torch.bfloat16 if precision == "bfloat16" else None)
    elif precision == "bfloat16":
        originals = Originals(network)
        return Learner(scored, originals.parameters, originals.to_network)
    return Learner(scored, trained(network), lambda: None)


def trained(network: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that require a gradient."""
    return {name: value for name, value in network.named_parameters() if value.requires_grad}


class Originals:
    """float32 originals of the trained parameters of a network that computes in bfloat16.

    The gradient of a micro-batch is added to its original's as soon as it is there, and freed.
    """

    def __init__(self, network: nn.Module) -> None:
        self.computing = trained(network)
        self.parameters = {
            name: nn.Parameter(value.detach().to(torch.float32, copy=True)) for name, value in self.computing.items()
        }
        for value in network.parameters():
            value.data = value.data.to(torch.bfloat16)
        for name, value in self.computing.items():
            value.register_post_accumulate_grad_hook(partial(_collect, self.parameters[name]))

    @torch.no_grad()
    def to_network(self) -> None:
        """Round the originals into the network."""
        for name, value in self.computing.items():
            value.copy_(self.parameters[name])


def _collect(original: nn.Parameter, computing: Tensor) -> None:
    assert computing.grad is not None
    if original.grad is None:
        original.grad = computing.grad.to(torch.float32)
    else:
        original.grad += computing.grad
    computing.grad = None
