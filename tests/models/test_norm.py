"""RMS norm, its short cut for one row and its gradients, held to the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.models import rows
from anyorder.models.norm import rms_norm


def by_definition(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


@given(
    count=st.sampled_from([1, 2, 5]), heads=st.sampled_from([None, 3]), width=st.sampled_from([2, 7, 64, 576]),
    scale=st.sampled_from([0.0, 1e-4, 1.0, 300.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_one_row_and_many_follow_the_definition(
    count: int, heads: int | None, width: int, scale: float, seed: int
) -> None:
    """Small values show that eps is added to the mean square, not to something else."""
    generator = torch.Generator().manual_seed(seed)
    shape = (count, width) if heads is None else (count, heads, width)
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


@pytest.mark.parametrize("shape", [(1, 6), (7, 6), (7, 3, 6)], ids=str)
@pytest.mark.parametrize("trained", [True, False])
def test_gradients_are_those_of_the_definition(
    shape: tuple[int, ...], trained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROWS", 3)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=trained)
    gradient = torch.randn(shape, generator=generator, dtype=torch.float64)
    wanted = [x, weight] if trained else [x]
    got = torch.autograd.grad(rms_norm(x, weight, 0.1), wanted, gradient)
    want = torch.autograd.grad(by_definition(x, weight, 0.1), wanted, gradient)
    torch.testing.assert_close(got, want)


def test_gradients_in_half_precision_are_summed_in_float32() -> None:
    x = torch.ones(2048, 4, dtype=torch.bfloat16)
    weight = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    rms_norm(x, weight, 0.0).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2048.0] * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_in_parts_are_the_rows(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "ROWS", 3)
    x = torch.randn(7, 8, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()
    weight = torch.linspace(0.5, 2, 8).to(dtype)
    assert torch.equal(rms_norm(x, weight, 1e-5), torch.nn.functional.rms_norm(x, (8,), weight, 1e-5))
