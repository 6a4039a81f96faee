"""Self-conditioning: a network that can be told what it predicted of the same noisy tokens in a pass before."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.errors import ModelError
from anyorder.models.linear import Linear
from anyorder.models.norm import rms_norm
from anyorder.models.transformer import Attend, Transformer
from anyorder.training.objectives import self_conditioned_loss
from anyorder.training.parts import layout_of
from anyorder.training.passes import Network, TrainingPass

PREFIX = "conditioning."
"""In front of the module's parameters in a `Conditioned`."""


class Conditioning(nn.Module):
    """Expected embeddings [T, hidden] -> what is added to the input embeddings [T, hidden]: a norm and a gated MLP.

    0 of 0, so that a pass without conditioning is one with expected embeddings of 0.

    Args:
        hidden: width of the embeddings, and of the MLP.
    Source: DiffusionGemma, arXiv:2608.00146 (a gated MLP in front of the first layer).
    """

    def __init__(self, hidden: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = Linear(hidden, 2 * hidden)
        self.down = Linear(hidden, hidden)

    @torch.no_grad()
    def initialise(self, seed: int) -> Conditioning:
        """It begins by adding nothing."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(self.gate_up.weight.shape, generator=generator) * self.norm.shape[0] ** -0.5
        self.gate_up.weight.copy_(drawn)
        self.down.weight.zero_()
        return self

    def forward(self, soft: Tensor) -> Tensor:
        gate, up = self.gate_up(rms_norm(soft, self.norm, self.eps)).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Conditioned(Transformer):
    """A transformer with a module for self-conditioning; without being told anything it is the same transformer.

    Args:
        network: its parameters are taken over, not copied.
        seed: of the module.
    """

    def __init__(self, network: Transformer, *, seed: int) -> None:
        with torch.device("meta"):
            super().__init__(network.config)
        self.embed, self.layers, self.norm, self.output = network.embed, network.layers, network.norm, network.output
        self.conditioning = Conditioning(network.config.hidden_size, network.config.rms_norm_eps).initialise(seed)
        self.conditioning.to(network.device, network.dtype)

    def told(self, soft: Tensor) -> Network:
        """The network given expected embeddings [T, hidden] of its own earlier prediction."""
        return _Told(self, soft)


@dataclass(frozen=True, eq=False)
class _Told:
    network: Conditioned
    soft: Tensor

    def __call__(self, ids: Tensor, positions: Tensor, attend: Attend, rows: Tensor, /, *context: int) -> Tensor:
        return self.network(ids, positions, attend, rows, _Added(self.network.conditioning(self.soft)))

    def head(self, hidden: Tensor, /) -> Tensor:
        return self.network.head(hidden)


@dataclass(frozen=True, eq=False)
class _Added:
    """Changes of a forward: something is added to the input embeddings, and nothing else."""

    embeddings: Tensor

    def embed(self, ids: Tensor, x: Tensor, /) -> Tensor:
        return x + self.embeddings

    def add(self, layer: int, product: str, x: Tensor, y: Tensor, /) -> Tensor:
        return y

    def among(self, rows: Tensor, /) -> _Added:
        return self


def conditioned_loss(network: nn.Module, p: TrainingPass) -> Tensor:
    """`self_conditioned_loss` of a pass whose first stream is clean: only noisy tokens are told anything.

    Raises:
        ModelError: the network has no module for that.
    """
    if not isinstance(network, Conditioned):
        raise ModelError("this network has no module for self-conditioning; make it a `conditioning.Conditioned`")
    clean = layout_of(p).documents.numel()

    def told(soft: Tensor) -> Network:
        soft[:clean] = 0
        return network.told(soft)

    return self_conditioned_loss(network, p, told)
