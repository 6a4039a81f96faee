"""The short cut of RMS norm for one row, held to its definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.models.norm import rms_norm


def by_definition(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


@given(
    rows=st.sampled_from([1, 2, 5]), heads=st.sampled_from([None, 3]), width=st.sampled_from([2, 7, 64, 576]),
    scale=st.sampled_from([0.0, 1e-4, 1.0, 300.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_one_row_and_many_follow_the_definition(
    rows: int, heads: int | None, width: int, scale: float, seed: int
) -> None:
    """Small values show that eps is added to the mean square, not to something else."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, width) if heads is None else (rows, heads, width)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * scale + scale  # a mean that must not matter
    weight = torch.randn(width, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), by_definition(x, weight, 1e-5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_row_keeps_dtype_and_precision(dtype: torch.dtype) -> None:
    x = (torch.randn(1, 96, generator=torch.Generator().manual_seed(0)) * 20).to(dtype)
    weight = torch.linspace(0.5, 2, 96).to(dtype)
    got = rms_norm(x, weight, 1e-5)
    assert got.dtype == dtype
    expected = by_definition(x.double(), weight.double(), 1e-5)
    torch.testing.assert_close(got.double(), expected, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
