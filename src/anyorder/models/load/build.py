"""From a checkpoint's tensors to a `Transformer`, largest first, with never more than one tensor held twice."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from anyorder.models.config import ModelConfig
from anyorder.models.linear import Linear, PackedLinear
from anyorder.models.load.check import check_tied
from anyorder.models.load.safetensors import Checkpoint
from anyorder.models.networks import network_of
from anyorder.models.quantised import EXPERTS, ROUTING, Scheme
from anyorder.models.transformer import MappedEmbedding, Transformer
from anyorder.models.weights import Place

CHUNK_BYTES = 1 << 24
"""Bytes copied before their source pages are released."""

NamedProduct = Callable[[str, Tensor, nn.Parameter | None], nn.Module]
"""From the name of a parameter, its matrix and a bias to the module that computes with them."""

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
    scheme: Scheme | None = None,
) -> Transformer:
    """The network with its weights, whose names and shapes must have passed `check_tensors`.

    Args:
        places: published tensor name -> place (`FamilySpec.weight_names`).
        pack: use `PackedLinear` and look embeddings up in the mapped file.
        scheme: keep the matrices in fewer bits, embeddings in the mapped file; goes before `pack`.
    Raises:
        WeightsError: the output head of a tied checkpoint differs from its embedding table.
    """
    if config.tie_word_embeddings:
        check_tied(places, checkpoint)
    with torch.device("meta"):
        network = network_of(config)
    sizes = {name: parameter.numel() for name, parameter in network.named_parameters()}
    laid_out = pack or scheme is not None
    scratch = torch.empty(_scratch_size(sizes) if laid_out else 0, dtype=dtype)
    lay_out = _LayOut(network, checkpoint, scratch, device, _packed if scheme is None else scheme.product)
    pieces = _by_parameter(places)
    for name in sorted(pieces, key=lambda name: -sizes[name]):
        if laid_out and name.endswith(".weight"):
            lay_out.matrix(name, pieces[name])
        elif scheme is not None and name.endswith(EXPERTS):
            lay_out.experts(name, pieces[name])
        else:
            _copy(network, name, pieces[name], checkpoint, torch.empty(0, dtype=_dtype(name, dtype), device=device))
        if scheme is not None:
            _give_back()
    return network.eval().requires_grad_(not laid_out)  # oneDNN and quantised products have no gradient


def _give_back() -> None:
    """What rounding freed goes back to the system; glibc would keep it, in pieces too small for the next time."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


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


def _packed(parameter: str, weight: Tensor, bias: nn.Parameter | None) -> nn.Module:
    return PackedLinear(weight, bias)


@dataclass(frozen=True)
class _LayOut:
    """Puts products with a layout of their own in the place of the network's plain ones."""

    network: Transformer
    checkpoint: Checkpoint
    scratch: Tensor
    device: torch.device
    product: NamedProduct

    def matrix(self, name: str, pieces: Pieces) -> None:
        """A weight; the embedding table stays in the file, or is copied to an accelerator."""
        if name == "embed.weight":
            self._embedding(pieces)
            if not self.network.config.tie_word_embeddings:
                return
            name = "output.weight"
        parent, attribute = _owner(self.network, name.removesuffix(".weight"))
        linear: Linear = getattr(parent, attribute)
        matrix = _assembled(pieces, self.checkpoint, self.scratch)
        product = self.product(name, matrix, None).to(self.device)
        product.bias = linear.bias  # pyright: ignore[reportArgumentType]  # still to be read
        setattr(parent, attribute, product)
        for piece in pieces:
            self.checkpoint.release(piece)

    def experts(self, name: str, pieces: Pieces) -> None:
        """The matrices of all experts of a layer, each a product of its own, made one after the other."""
        parent, attribute = _owner(self.network, name)
        matrices = self._each(pieces, getattr(parent, attribute).shape[1])
        products = [self.product(name, matrix, None).to(self.device) for matrix in matrices]
        delattr(parent, attribute)
        setattr(parent, attribute, nn.ModuleList(products))

    def _each(self, pieces: Pieces, rows: int) -> Iterator[Tensor]:
        """One expert's matrix after the other, [rows, in]; each is valid until the next."""
        if len(pieces) == 1:  # published as one tensor for all
            (name,) = pieces
            for matrix in self.checkpoint.tensor(name):
                yield _in_dtype_of(self.scratch, matrix)
                self.checkpoint.release(name)
            return
        experts: dict[int, dict[str, Place]] = {}
        for name, place in pieces.items():
            number, start = divmod(place.start, rows)
            experts.setdefault(number, {})[name] = Place(place.parameter, start, place.shape)
        for _, own in sorted(experts.items()):
            yield _assembled(own, self.checkpoint, self.scratch)
            for name in own:
                self.checkpoint.release(name)

    def _embedding(self, pieces: Pieces) -> None:
        table = self.checkpoint.tensor(next(iter(pieces)))
        if self.device.type == "cpu":
            self.network.embed = MappedEmbedding(table, self.scratch.dtype)
        else:
            like = torch.empty(0, dtype=self.scratch.dtype, device=self.device)
            _copy(self.network, "embed.weight", pieces, self.checkpoint, like)


def _in_dtype_of(scratch: Tensor, matrix: Tensor) -> Tensor:
    """A mapped matrix itself where that is possible, else a copy in `scratch`."""
    if matrix.dtype == scratch.dtype:
        return matrix
    return _room(scratch, matrix.shape).copy_(matrix)


def _room(scratch: Tensor, shape: Sequence[int]) -> Tensor:
    return scratch[: prod(shape)].view(*shape) if prod(shape) <= len(scratch) else scratch.new_empty(*shape)


def _assembled(pieces: Pieces, checkpoint: Checkpoint, scratch: Tensor) -> Tensor:
    """One matrix in the dtype of `scratch`: the mapped tensor itself where that is possible, else a copy."""
    first = checkpoint.tensor(next(iter(pieces)))
    if len(pieces) == 1 and first.dtype == scratch.dtype:
        return first
    shape = (sum(place.shape[0] for place in pieces.values()), *first.shape[1:])
    matrix = _room(scratch, shape)
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
