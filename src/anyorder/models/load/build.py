"""From a checkpoint's tensors to a `Transformer`, largest first, with never more than one tensor held twice."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from anyorder.errors import WeightsError
from anyorder.models.config import ModelConfig
from anyorder.models.linear import Linear, PackedLinear
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.transformer import MappedEmbedding, Transformer
from anyorder.models.weights import Place

CHUNK_BYTES = 1 << 24
"""Bytes copied before their source pages are released."""
SHOWN = 3
"""Names listed in an error before it only counts."""

Pieces = dict[str, dict[str, Place]]  # parameter -> published name -> place


def build(
    config: ModelConfig,
    places: Mapping[str, Place],
    checkpoint: Checkpoint,
    *,
    device: torch.device,
    dtype: torch.dtype,
    pack: bool,
) -> Transformer:
    """The network with its weights.

    Args:
        places: published tensor name -> place (`FamilySpec.weight_names`).
        pack: use `PackedLinear` and look embeddings up in the mapped file.
    The tensors must have passed `check_tensors`.
    """
    with torch.device("meta"):
        network = Transformer(config)
    pieces = _by_parameter(places)
    for name in sorted(pieces, key=lambda name: -network.get_parameter(name).numel()):
        if pack and name.endswith(".weight"):
            _pack(network, name, pieces[name], checkpoint, dtype)
        else:
            _copy(network, name, pieces[name], checkpoint, device, dtype)
    return network.eval()


def check_tensors(places: Mapping[str, Place], checkpoint: Checkpoint, *, tied: bool) -> None:
    """Compare names and shapes with what the config implies; nothing is read.

    Raises:
        WeightsError: tensors are missing, unknown or of the wrong shape.
    """
    found = checkpoint.entries
    if missing := [name for name in places if name not in found]:
        raise WeightsError(f"{checkpoint.folder}: {_some(missing)} missing from the weights")
    if unknown := [name for name in found if name not in places and not _redundant(name, tied)]:
        raise WeightsError(
            f"{checkpoint.folder}: {_some(unknown)} unknown to this architecture; is config.json theirs?"
        )
    wrong = [
        f"{name} {list(found[name].shape)} instead of {list(place.shape)}"
        for name, place in places.items()
        if found[name].shape != place.shape
    ]
    if wrong:
        raise WeightsError(f"{checkpoint.folder}: shapes disagree with config.json: {_some(wrong)}")


def _redundant(name: str, tied: bool) -> bool:
    """Tensors that some exporters add and that follow from the rest: rotary tables, the copy of a tied head."""
    return name.endswith("rotary_emb.inv_freq") or (
        tied and name in ("lm_head.weight", "model.transformer.ff_out.weight")
    )


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _by_parameter(places: Mapping[str, Place]) -> Pieces:
    pieces: Pieces = {}
    for name, place in places.items():
        pieces.setdefault(place.parameter, {})[name] = place
    return pieces


def _pack(
    network: Transformer, name: str, pieces: dict[str, Place], checkpoint: Checkpoint, dtype: torch.dtype
) -> None:
    source = next(iter(pieces))
    if name == "embed.weight":
        network.embed = MappedEmbedding(checkpoint.tensor(source), dtype)
        if not network.config.tie_word_embeddings:
            return
        name = "output.weight"
    parent, attribute = _owner(network, name.removesuffix(".weight"))
    linear: Linear = getattr(parent, attribute)
    weight = checkpoint.tensor(source) if len(pieces) == 1 else _joined(pieces, checkpoint, dtype)
    setattr(parent, attribute, PackedLinear(weight.to(dtype), linear.bias))
    for piece in pieces:
        checkpoint.release(piece)


def _joined(pieces: dict[str, Place], checkpoint: Checkpoint, dtype: torch.dtype) -> Tensor:
    rows = sum(place.shape[0] for place in pieces.values())
    joined = torch.empty((rows, *next(iter(pieces.values())).shape[1:]), dtype=dtype)
    for name, place in pieces.items():
        joined[place.start : place.start + place.shape[0]] = checkpoint.tensor(name)
    return joined


def _copy(
    network: Transformer,
    name: str,
    pieces: dict[str, Place],
    checkpoint: Checkpoint,
    device: torch.device,
    dtype: torch.dtype,
) -> None:
    parent, attribute = _owner(network, name)
    value = torch.empty(getattr(parent, attribute).shape, dtype=dtype, device=device)
    for piece, place in pieces.items():
        _fill(value[place.start : place.start + place.shape[0]], piece, checkpoint)
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
