"""What of a model a pass has to read and to multiply."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.models.config import ModelConfig
from anyorder.models.facts import kv_numbers, num_parameters
from anyorder.models.spec import FamilySpec


@dataclass(frozen=True, kw_only=True)
class Experts:
    """The experts of a mixture, over all layers that have any."""

    count: int
    """Per layer."""
    top_k: int
    weights: int
    """Of one expert in all layers together."""

    def hit(self, tokens: float) -> float:
        """Experts per layer that at least one of `tokens` goes to, on average, if all are equally likely."""
        return self.count * (1 - (1 - self.top_k / self.count) ** tokens)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A model as a roofline sees it; weights are counted in numbers, not in bytes."""

    dense: int
    """Weights of the layers that every token passes."""
    head: int
    """Weights of the output head."""
    parameters: int
    """Everything that is kept in memory."""
    layers: int
    kv_size: int
    """Numbers that a token leaves in the cache, over all layers, keys and values."""
    query_size: int
    itemsize: float
    """Bytes of a number."""
    experts: Experts | None = None

    @property
    def weight_bytes(self) -> float:
        return self.parameters * self.itemsize

    @property
    def kv_bytes(self) -> float:
        """Of one token."""
        return self.kv_size * self.itemsize


def sizes_of(config: ModelConfig, spec: FamilySpec, itemsize: float) -> Sizes:
    """The sizes of a model of a known family.

    Args:
        itemsize: bytes of a number; 0.5 for four bits.
    """
    table = config.vocab_size * config.hidden_size
    parameters = num_parameters(config, spec)
    outside = table if config.tie_word_embeddings else 2 * table
    moe = config.moe
    expert = 0 if moe is None else 3 * config.hidden_size * moe.expert_size * sum(moe.layers)
    experts = None if moe is None else Experts(count=moe.num_experts, top_k=moe.top_k, weights=expert)
    return Sizes(
        dense=parameters - outside - expert * (0 if moe is None else moe.num_experts),
        head=table,
        parameters=parameters,
        layers=config.num_layers,
        kv_size=kv_numbers(config),
        query_size=config.query_size,
        itemsize=itemsize,
        experts=experts,
    )
