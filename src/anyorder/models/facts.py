"""Sizes that follow from a config alone: parameters, memory of the weights, memory of the keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from anyorder.models.config import ModelConfig
from anyorder.models.quantised import Scheme, num_bytes
from anyorder.models.spec import FamilySpec


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What `anyorder inspect` shows about sizes; bytes at `dtype`."""

    num_parameters: int
    """Tied tables count once."""
    active_parameters: int
    """Those that one token's forward pass reads: all but the experts that it does not go to."""
    image_parameters: int
    """Of the tower that reads images, which the other two numbers leave out."""
    weight_bytes: int
    """Images included."""
    table_bytes: int
    """The part of it that a CPU reads from the file as needed, where the matrices have a layout of their own (packed or
    of few bits): the embedding table, unless it is the output head, too."""
    kv_bytes_per_token: int
    """Keys and values of all layers for one position; 0 bytes are kept when decoding without a cache."""
    context: int
    """Positions that `kv_bytes` is for."""
    kv_bytes: int
    dtype: torch.dtype


def describe(
    config: ModelConfig,
    spec: FamilySpec,
    *,
    dtype: torch.dtype,
    context: int | None = None,
    scheme: Scheme | None = None,
) -> Facts:
    """Sizes of a model at a dtype.

    Args:
        scheme: the matrices are kept in fewer bits.
        context: positions to size the keys and values for; None: the checkpoint's whole context.
    """
    parameters, images = num_parameters(config, spec), image_parameters(config, spec)
    per_token, table = kv_numbers(config) * dtype.itemsize, config.vocab_size * config.hidden_size
    positions = config.max_context if context is None else context
    return Facts(
        num_parameters=parameters,
        active_parameters=parameters - _idle(config),
        image_parameters=images,
        weight_bytes=_weight_bytes(config, spec, dtype.itemsize, scheme) + images * dtype.itemsize,
        table_bytes=0 if config.tie_word_embeddings and scheme is None else table * dtype.itemsize,
        kv_bytes_per_token=per_token,
        context=positions,
        kv_bytes=per_token * positions,
        dtype=dtype,
    )


def kv_numbers(config: ModelConfig) -> int:
    """Numbers that a token leaves in the cache, keys and values of all layers."""
    return 2 * sum(prod(config.kv_shape(layer)) for layer in range(config.num_layers))


def _idle(config: ModelConfig) -> int:
    """Parameters of the experts that a token does not go to."""
    if config.moe is None:
        return 0
    expert = 3 * config.hidden_size * config.moe.expert_size
    return sum(config.moe.layers) * (config.moe.num_experts - config.moe.top_k) * expert


def _weight_bytes(config: ModelConfig, spec: FamilySpec, itemsize: int, scheme: Scheme | None) -> int:
    """A tied table is kept once, unless its output head has fewer bits than its embeddings."""
    places = spec.weight_names(config).values()
    weights = sum(num_bytes(scheme, place.parameter, place.shape, itemsize) for place in places)
    if scheme is None or not config.tie_word_embeddings:
        return weights
    return weights + num_bytes(scheme, "output.weight", (config.vocab_size, config.hidden_size), itemsize)


def num_parameters(config: ModelConfig, spec: FamilySpec) -> int:
    """Trained numbers in the checkpoint."""
    return sum(prod(place.shape) for place in spec.weight_names(config).values())


def image_parameters(config: ModelConfig, spec: FamilySpec) -> int:
    """Trained numbers of the tower that reads images; 0 where there is none. It is never quantised."""
    shapes = {} if spec.image_shapes is None else spec.image_shapes(config)
    return sum(prod(shape) for shape in shapes.values())
