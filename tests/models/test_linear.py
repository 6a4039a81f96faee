"""The packed product equals the plain one."""

from __future__ import annotations

import pytest
import torch

from anyorder.models.linear import Linear, PackedLinear, can_pack

needs_packing = pytest.mark.skipif(
    not can_pack(torch.device("cpu"), torch.float32), reason="this PyTorch has no oneDNN"
)


@needs_packing
@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_packed_is_plain_within_noise(rows: int, bias: bool, dtype: torch.dtype, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(rows)
    plain = Linear(24, 50, bias=bias).to(dtype)
    for parameter in plain.parameters():
        parameter.data.normal_(generator=generator)
    x = torch.randn(rows, 24, generator=generator).to(dtype)
    with torch.inference_mode():
        packed = PackedLinear(plain.weight.detach(), plain.bias)
        torch.testing.assert_close(packed(x), plain(x), atol=tolerance, rtol=tolerance)


@needs_packing
def test_packing_does_not_keep_the_weight() -> None:
    weight = torch.ones(8, 8)
    packed = PackedLinear(weight, None)
    weight.zero_()
    with torch.inference_mode():
        assert packed(torch.ones(1, 8)).tolist() == [[8.0] * 8]
    assert not packed.state_dict()


def test_only_cpu_and_two_dtypes_are_packed() -> None:
    assert not can_pack(torch.device("cpu"), torch.float64)
    assert not can_pack(torch.device("cuda"), torch.float32)
