"""The ways to keep weights in fewer bits, by the name that users give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from anyorder.errors import ParameterError
from anyorder.models.quantised.int4 import Int4Linear, group_of
from anyorder.models.quantised.int8 import Int8DynamicLinear, Int8Linear

Product = Callable[[Tensor, nn.Parameter | None], nn.Module]
"""From a matrix [out, in] and a bias to the module that computes with it."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """One of them."""

    name: str
    title: str
    layer: Product
    """For the matrices of the layers."""
    head: Product
    """For the output head: its errors are errors of logits, so it never has fewer than 8 bits."""

    def product(self, parameter: str, weight: Tensor, bias: nn.Parameter | None) -> nn.Module:
        """The module in the place of a matrix.

        Args:
            parameter: its name in the network, such as "layers.0.out.weight".
        """
        return (self.head if parameter == "output.weight" else self.layer)(weight, bias)


def _in_four_bits(weight: Tensor, bias: nn.Parameter | None) -> nn.Module:
    """In 8 bits if no group divides the width."""
    return Int8Linear(weight, bias) if group_of(weight.shape[1]) is None else Int4Linear(weight, bias)


EXPERTS = (".moe.gate_up", ".moe.down", ".experts_gate_up", ".experts_down")
"""Parameters that hold a matrix for each expert."""

ROUTING = (".moe.router", ".moe.bias")
"""Parameters that are kept in float32 at least: the rounding of a bias would send tokens to other experts."""


def num_bytes(scheme: Scheme | None, parameter: str, shape: Sequence[int], itemsize: int) -> int:
    """Memory of a parameter of a network.

    Args:
        parameter: its name in the network.
        shape: [out, in], or [experts, out, in].
        itemsize: bytes of a number that is not quantised.
    """
    numbers = prod(shape)
    if parameter.endswith(ROUTING):
        return numbers * max(itemsize, torch.float32.itemsize)
    is_matrix = parameter.endswith((".weight", *EXPERTS)) and len(shape) > 1
    if scheme is None or not is_matrix or parameter == "embed.weight":
        return numbers * itemsize
    outputs = numbers // shape[-1]
    group = group_of(shape[-1]) if scheme.name == "int4" and parameter != "output.weight" else None
    return numbers + 4 * outputs if group is None else numbers // 2 + 4 * numbers // group


SCHEMES: dict[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="int8", title="weights in 8 bits", layer=Int8Linear, head=Int8Linear),
        Scheme(
            name="int8-dynamic",
            title="weights and activations in 8 bits, integer products",
            layer=Int8DynamicLinear,
            head=Int8DynamicLinear,
        ),
        Scheme(name="int4", title="weights in 4 bits, the output head in 8", layer=_in_four_bits, head=Int8Linear),
    )
}


def parse_scheme(name: str | None) -> Scheme | None:
    """The scheme of a name; None: none.

    Raises:
        ParameterError: there is no such scheme.
    """
    if name is None:
        return None
    if name not in SCHEMES:
        raise ParameterError(f"quantize must be one of {', '.join(SCHEMES)}, got {name!r}", param="quantize")
    return SCHEMES[name]
