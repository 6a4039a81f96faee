"""The network that a recipe trains, and what is made of the trained parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.models.adapter import Adapter, LowRank
from anyorder.models.config import ModelConfig
from anyorder.models.load.build import build
from anyorder.models.load.place import DTYPES
from anyorder.models.load.survey import Survey
from anyorder.models.transformer import Transformer
from anyorder.models.weights import Place
from anyorder.training.conditioning import Conditioned
from anyorder.training.recipe.mask import MaskToken, mean_embedding, settle
from anyorder.training.recipe.objectives import self_conditioning
from anyorder.training.recipe.spec import Lora, Recipe
from anyorder.training.trainee import Trainee

ADAPTER = "adapter."
"""In front of an adapter's parameters in a `Trainee`."""


def network_of(recipe: Recipe, found: Survey, mask: MaskToken | None, device: torch.device) -> Transformer | Trainee:
    """The weights of the base, read and made trainable as the recipe says.

    Args:
        mask: None: the objective has no masks.
    """
    network = build(
        found.config,
        found.spec.weight_names(found.config),
        found.checkpoint,
        device=device,
        dtype=DTYPES[recipe.precision.weights],
        pack=False,
    )
    if mask is not None and not recipe.publishes_adapter:
        settle(network, mask)
    if isinstance(recipe.method, Lora):
        begin = None if mask is None else mean_embedding(network)
        adapter = _adapter(recipe.method, network.config, mask).initialise(begin, seed=recipe.seed)
        return Trainee(network, adapter.to(device))
    return Conditioned(network, seed=recipe.seed) if self_conditioning(recipe.objective) else network


def _adapter(method: Lora, config: ModelConfig, mask: MaskToken | None) -> Adapter:
    token_id = None if mask is None else mask.token_id
    return Adapter(config, rank=method.rank, alpha=method.alpha, mask_token_id=token_id)


def trained_adapter(
    method: Lora, config: ModelConfig, mask: MaskToken | None, weights: Mapping[str, Tensor]
) -> Adapter:
    """The adapter with trained parameters, by their names in a `Trainee`."""
    adapter = _adapter(method, config, mask)
    adapter.load_state_dict({name.removeprefix(ADAPTER): value for name, value in weights.items()})
    return adapter


Published = Callable[[str], Tensor]
"""Published name of a tensor -> its trained value."""


def full_tensors(places: Mapping[str, Place], weights: Mapping[str, Tensor]) -> Published:
    """Of a network whose every parameter was trained."""

    def value(name: str) -> Tensor:
        place = places[name]
        return place.rows(weights[place.parameter])

    return value


@dataclass(frozen=True)
class Merged:
    """Of a base with its adapter merged in.

    Args:
        places: published names of the network, with the mask token's row.
        found: the base.
    """

    adapter: Adapter
    mask: MaskToken | None
    places: Mapping[str, Place]
    found: Survey

    @torch.no_grad()
    def __call__(self, name: str) -> Tensor:
        place = self.places[name]
        base = self.found.checkpoint.tensor(name).to(torch.float32)
        if place.parameter in ("embed.weight", "output.weight"):
            return self._table(base, place)
        *module, kind = place.parameter.split(".")
        change = self.adapter.get_submodule(".".join(module)) if kind == "weight" else None
        if not isinstance(change, LowRank):
            return base
        rows = slice(place.start, place.start + place.shape[0])
        return base + self.adapter.alpha / self.adapter.rank * (change.up[rows] @ change.down)

    def _table(self, base: Tensor, place: Place) -> Tensor:
        if self.mask is None:
            return base
        mean = base.mean(0)
        table = torch.cat((base, mean.expand(self.mask.vocab_size - base.shape[0], -1)))
        embedding = self.adapter.mask_embedding
        assert embedding is not None
        if place.parameter == "embed.weight":
            table[self.mask.token_id] = embedding
        elif self.mask.untrained:
            table[self.mask.token_id] = mean
        return table
