"""Products with few bits: what is kept, how exact it is, and that every path computes the same."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from anyorder.models.quantised import SCHEMES, int4, int8, kernel
from anyorder.models.quantised.int4 import Int4Linear
from anyorder.models.quantised.int8 import Int8DynamicLinear, Int8Linear
from anyorder.models.quantised.schemes import parse_scheme

SCHEME = pytest.mark.parametrize("name", SCHEMES)
DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def matrix(outputs: int, inputs: int, seed: int = 0) -> Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 9), st.integers(1, 70), st.integers(0, 99))
def test_eight_bits_are_half_a_step_away_at_most(outputs: int, inputs: int, seed: int) -> None:
    weight = matrix(outputs, inputs, seed)
    values, scale = int8.rounded(weight)
    assert values.abs().max() == 127
    assert ((values * scale[:, None] - weight).abs() <= scale[:, None] * 0.5001).all()


@given(st.integers(1, 9), st.integers(1, 3), st.integers(0, 99))
def test_four_bits_are_half_a_step_away_at_most(outputs: int, groups: int, seed: int) -> None:
    weight = matrix(outputs, 32 * groups, seed)
    levels, scale, middle = int4.rounded(weight, 32)
    assert levels.min() == 0
    assert levels.max() == 15
    turned = (levels.unflatten(1, (-1, 32)) - 8) * scale[..., None] + middle[..., None]
    assert ((turned.flatten(1) - weight).unflatten(1, (-1, 32)).abs() <= scale[..., None] * 0.501).all()


def test_zeros_stay_zeros() -> None:
    for build in (Int8Linear, Int8DynamicLinear, Int4Linear):
        assert torch.equal(build(torch.zeros(64, 64), None)(torch.zeros(2, 64)), torch.zeros(2, 64))


def test_pairs_come_back() -> None:
    levels = torch.randint(0, 16, (128, 96), dtype=torch.int32)
    assert torch.equal(int4.unpacked(int4.packed(levels)).int(), levels)
    if kernel.can_pack(128):
        assert torch.equal(kernel.unpacked(kernel.packed(levels)).int(), levels)
    assert not kernel.can_pack(100)


@SCHEME
@DTYPE
@pytest.mark.parametrize("rows", [1, 3, 8, 40, 200])
def test_products_are_those_of_the_rounded_weights(name: str, dtype: torch.dtype, rows: int) -> None:
    """Few rows and many take other kernels; a bias is added; the shape before the last is kept."""
    weight, bias = matrix(128, 192), nn.Parameter(matrix(1, 128, 7)[0].to(dtype))
    product = SCHEMES[name].layer(weight.to(dtype), bias)
    x = matrix(rows, 192, 3).to(dtype)
    exact = x.float() @ weight.T + bias.float()
    allowed = {"int8": 0.012, "int8-dynamic": 0.016, "int4": 0.12}[name]
    with torch.inference_mode():
        found = product(x)
    assert found.dtype == dtype
    assert (found.float() - exact).norm() <= allowed * exact.norm()
    assert (found.float() - exact).norm() >= 0.001 * exact.norm(), "the weights were not rounded"
    assert torch.equal(product(x[None])[0], found)


@SCHEME
@DTYPE
def test_the_kernels_and_the_matrix_agree(name: str, dtype: torch.dtype) -> None:
    """A row alone (kernel) and among many (matrix turned back)."""
    product = SCHEMES[name].layer(matrix(128, 192).to(dtype), None)
    x = matrix(300, 192, 3).to(dtype)
    many, one = product(x).float(), torch.cat([product(row[None]) for row in x[:5]]).float()
    assert (many[:5] - one).norm() <= 0.01 * one.norm()


@DTYPE
def test_integer_products_do_not_depend_on_the_number_of_rows(dtype: torch.dtype) -> None:
    product = Int8DynamicLinear(matrix(96, 160), None)
    x = matrix(33, 160, 5).to(dtype)
    assert torch.equal(product(x), torch.cat([product(part) for part in x.split(4)]))
    assert product(x[:0]).shape == (0, 96)


def test_a_width_without_groups_is_kept_in_eight_bits() -> None:
    assert isinstance(SCHEMES["int4"].layer(matrix(8, 40), None), Int8Linear)
    assert isinstance(SCHEMES["int4"].product("output.weight", matrix(64, 64), None), Int8Linear)
    assert isinstance(SCHEMES["int4"].product("layers.0.out.weight", matrix(64, 64), None), Int4Linear)


def test_unknown_schemes_are_refused() -> None:
    assert parse_scheme(None) is None
    with pytest.raises(ValueError, match="quantize must be one of int8, int8-dynamic, int4, got 'fp8'"):
        parse_scheme("fp8")


@pytest.mark.parametrize("width", [8, 24, 36, 40, 48])
@pytest.mark.parametrize("rows", [1, 3])
def test_any_width_is_computed(width: int, rows: int) -> None:
    """PyTorch's kernel for few rows went beyond the memory of matrices whose width is no multiple of 16."""
    weight, x = matrix(4, width), matrix(rows, width, 1)
    values, scale = int8.rounded(weight)
    expected = x @ (values * scale[:, None]).T
    torch.testing.assert_close(Int8Linear(weight, None)(x), expected, atol=0.1, rtol=0.02)
