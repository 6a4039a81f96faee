"""From a checkpoint's tensors to a `Transformer`, largest first, with never more than one tensor held twice."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import torch
from torch import Tensor, nn

from anyorder.models.config import ModelConfig
from anyorder.models.linear import Linear, PackedLinear
from anyorder.models.load.check import check_tied
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.networks import network_of
from anyorder.models.transformer import MappedEmbedding, Transformer
from anyorder.models.weights import Place

CHUNK_BYTES = 1 << 24
"""Bytes copied before their source pages are released."""

ROUTING = (".moe.router", ".moe.bias")
"""Parameters that are kept in float32 at least."""

Pieces = Mapping[str, Place]
"""The published tensors of one parameter."""


def build(
    config: ModelConfig,
    places: Mapping[str, Place],
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    pack: bool,
) -> Transformer:
    """The network with its weights, whose names and shapes must have passed `check_tensors`.

    Args:
        places: published tensor name -> place (`FamilySpec.weight_names`).
        pack: use `PackedLinear` and look embeddings up in the mapped file.
    Raises:
        WeightsError: the output head of a tied checkpoint differs from its embedding table.
    """
    if config.tie_word_embeddings:
        check_tied(places, checkpoint)
    with torch.device("meta"):
        network = network_of(config)
    sizes = {name: parameter.numel() for name, parameter in network.named_parameters()}
    scratch = torch.empty(_scratch_size(sizes) if pack else 0, dtype=dtype)
    pieces = _by_parameter(places)
    for name in sorted(pieces, key=lambda name: -sizes[name]):
        if pack and name.endswith(".weight"):
            _pack(network, name, pieces[name], checkpoint, scratch)
        else:
            _copy(network, name, pieces[name], checkpoint, torch.empty(0, dtype=_dtype(name, dtype), device=device))
    return network.eval().requires_grad_(not pack)  # oneDNN products have no gradient


def _scratch_size(sizes: Mapping[str, int]) -> int:
    """Room for the largest matrix of a layer: one buffer for all, since a freed one each would fragment the heap."""
    return max(size for name, size in sizes.items() if name.startswith("layers.") and name.endswith(".weight"))


def _dtype(name: str, dtype: torch.dtype) -> torch.dtype:
    """Routers are computed in float32, and the rounding of a bias would send tokens to other experts."""
    return torch.promote_types(dtype, torch.float32) if name.endswith(ROUTING) else dtype


def _by_parameter(places: Mapping[str, Place]) -> dict[str, dict[str, Place]]:
    pieces: dict[str, dict[str, Place]] = {}
    for name, place in places.items():
        pieces.setdefault(place.parameter, {})[name] = place
    return pieces


def _pack(network: Transformer, name: str, pieces: Pieces, checkpoint: Checkpoint, scratch: Tensor) -> None:
    if name == "embed.weight":
        network.embed = MappedEmbedding(checkpoint.tensor(next(iter(pieces))), scratch.dtype)
        if not network.config.tie_word_embeddings:
            return
        name = "output.weight"
    parent, attribute = _owner(network, name.removesuffix(".weight"))
    linear: Linear = getattr(parent, attribute)
    setattr(parent, attribute, PackedLinear(_assembled(pieces, checkpoint, scratch), linear.bias))
    for piece in pieces:
        checkpoint.release(piece)


def _assembled(pieces: Pieces, checkpoint: Checkpoint, scratch: Tensor) -> Tensor:
    """One matrix in the dtype of `scratch`: the mapped tensor itself where that is possible, else a copy."""
    first = checkpoint.tensor(next(iter(pieces)))
    if len(pieces) == 1 and first.dtype == scratch.dtype:
        return first
    shape = (sum(place.shape[0] for place in pieces.values()), *first.shape[1:])
    matrix = scratch[: prod(shape)].view(shape) if prod(shape) <= len(scratch) else scratch.new_empty(shape)
    for name, place in pieces.items():
        _fill(place.rows(matrix), name, checkpoint)
    return matrix


def _copy(network: Transformer, name: str, pieces: Pieces, checkpoint: Checkpoint, like: Tensor) -> None:
    parent, attribute = _owner(network, name)
    value = like.new_empty(getattr(parent, attribute).shape)
    for piece, place in pieces.items():
        _fill(place.rows(value), piece, checkpoint)
    parameter = nn.Parameter(value)
    setattr(parent, attribute, parameter)
    if name == "embed.weight" and network.config.tie_word_embeddings:
        network.output.weight = parameter


def _fill(target: Tensor, name: str, checkpoint: Checkpoint) -> None:
    source = checkpoint.tensor(name)
    step = max(1, CHUNK_BYTES * len(source) // max(1, source.nbytes))
    for start in range(0, len(source), step):
        target[start : start + step].copy_(source[start : start + step])
        checkpoint.release(name)


def _owner(network: Transformer, name: str) -> tuple[nn.Module, str]:
    path, _, attribute = name.rpartition(".")
    return network.get_submodule(path), attribute
