"""LoRA on the matrix products of a `Transformer`, on for some rows of a pass and off for the others.

A converted model keeps its causal mode because the clean text is read with the adapter off: those rows are computed as
if there were no adapter at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anyorder.errors import ParameterError
from anyorder.models.config import ModelConfig

PRODUCTS = ("qkv", "out", "gate_up", "down")
"""The matrix products of a layer that are adapted, in their order."""


class LowRank(nn.Module):
    """The change of one matrix product: x [T, in], y [T, out] -> y + scale · (x Aᵀ) Bᵀ [T, out].

    Args:
        rank: rows of A; 0 leaves the product as it is.
    """

    def __init__(self, in_features: int, out_features: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, in_features))
        self.up = nn.Parameter(torch.empty(out_features, rank))

    def forward(self, x: Tensor, y: Tensor, scale: float) -> Tensor:
        low = F.linear(x, self.down.to(x.dtype))
        return torch.addmm(y, low, self.up.to(x.dtype).t(), alpha=scale)  # one pass over y


class Adapter(nn.Module):
    """Low-rank changes of every layer, and the embedding of the mask token.

    Args:
        config: of the adapted network.
        rank: of every change; the queries, keys and values share one A, as do gate and up.
        alpha: the changes are scaled by alpha / rank.
        mask_token_id: whose embedding the adapter brings along; None: it brings none.
    Raises:
        ParameterError: rank or alpha is not positive.
    Source: LoRA, arXiv:2106.09685.
    """

    def __init__(self, config: ModelConfig, *, rank: int, alpha: float, mask_token_id: int | None = None) -> None:
        super().__init__()
        if rank < 1 or alpha <= 0:
            raise ParameterError(f"`rank` and `alpha` must be positive, got {rank} and {alpha}", param="rank")
        self.rank = rank
        self.alpha = alpha
        self.mask_token_id = mask_token_id
        sizes = product_sizes(config)
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: LowRank(*sizes[name], rank) for name in PRODUCTS}) for _ in range(config.num_layers)
        )
        self.mask_embedding = nn.Parameter(torch.empty(config.hidden_size)) if mask_token_id is not None else None

    @torch.no_grad()
    def initialise(self, mask_embedding: Tensor | None = None, *, seed: int = 0) -> Adapter:
        """A drawn as in the paper's code, B = 0: a new adapter changes nothing but the mask token.

        Args:
            mask_embedding: [hidden], where the mask token's embedding begins; the mean of the table is a good place.
        """
        generator = torch.Generator().manual_seed(seed)
        for part in self.modules():
            if isinstance(part, LowRank):
                bound = part.down.shape[1] ** -0.5
                part.down.copy_(torch.empty(part.down.shape).uniform_(-bound, bound, generator=generator))
                part.up.zero_()
        if self.mask_embedding is not None:
            if mask_embedding is None:
                raise ParameterError("`mask_embedding` must be given: the adapter brings one along")
            self.mask_embedding.copy_(mask_embedding)
        return self

    def on(self, rows: Tensor | None = None) -> Adapted:
        """The adapter for one pass.

        Args:
            rows: [T] bool, fed tokens that it is on for; None: all of them.
        """
        return Adapted(self, None if rows is None else rows[:, None])


@dataclass(frozen=True, eq=False)
class Adapted:
    """An adapter in one pass, on for some of its rows."""

    adapter: Adapter
    gate: Tensor | None
    """[T, 1] bool; None: on everywhere."""

    def embed(self, ids: Tensor, x: Tensor) -> Tensor:
        """Put the adapter's mask embedding in; ids [T] int64, x [T, hidden]."""
        mask = self.adapter.mask_embedding
        if mask is None:
            return x
        place = (ids == self.adapter.mask_token_id)[:, None]
        return torch.where(place if self.gate is None else place & self.gate, mask.to(x.dtype), x)

    def add(self, layer: int, product: str, x: Tensor, y: Tensor) -> Tensor:
        """y [T, out], the product of x [T, in], with its change; rows that the adapter is off for stay as they are."""
        change = self.adapter.get_submodule(f"layers.{layer}.{product}")
        changed: Tensor = change(x, y, self.adapter.alpha / self.adapter.rank)
        return changed if self.gate is None else torch.where(self.gate, changed, y)

    def among(self, rows: Tensor) -> Adapted:
        """The same for a choice of rows, [R] int64."""
        return self if self.gate is None else replace(self, gate=self.gate[rows])


def product_sizes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """(in, out) of every adapted product.

    Raises:
        ParameterError: the network has experts or other layers, whose products cannot be adapted.
    """
    if type(config) is not ModelConfig:
        raise ParameterError("only plain transformers take an adapter; load the model without one", param="adapter")
    if config.moe is not None:
        raise ParameterError(
            "a network with a mixture of experts takes no adapter here; merge it into the weights first",
            param="adapter",
        )
    hidden, inner = config.hidden_size, config.intermediate_size
    return {
        "qkv": (hidden, config.query_size + 2 * config.kv_size),
        "out": (config.query_size, hidden),
        "gate_up": (hidden, 2 * inner),
        "down": (inner, hidden),
    }
