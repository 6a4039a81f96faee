"""Grouped-query attention against its definition; which columns the three regimes let a row see."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from anyorder.models.attention import block_mask, sdpa, visible


def naive(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """One query head and one row at a time."""
    out = torch.empty_like(q)
    for head in range(q.shape[1]):
        keys, values = (tensor[head // (q.shape[1] // k.shape[0])] for tensor in (k, v))
        for row in range(q.shape[0]):
            scores = keys @ q[row, head] / q.shape[2] ** 0.5
            seen = slice(None) if mask is None else mask[row]
            out[row, head] = scores[seen].softmax(0) @ values[seen]
    return out


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_sdpa_is_attention_by_groups(kv_heads: int, rows: int, masked: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(rows, 4, 6, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, kv_heads, 9, 6, generator=generator, dtype=torch.float64)
    mask = torch.rand(rows, 9, generator=generator) > 0.5 if masked else None
    if mask is not None:
        mask[:, 3] = True
    torch.testing.assert_close(sdpa(q, k, v, mask), naive(q, k, v, mask))


def test_sdpa_takes_strided_views_no_rows_and_additive_masks() -> None:
    q, kv = torch.randn(3, 4, 6), torch.randn(7, 2, 6)
    k = kv.transpose(0, 1)
    mask = torch.ones(3, 7, dtype=torch.bool).tril()
    additive = torch.zeros(3, 7).masked_fill(~mask, float("-inf"))
    torch.testing.assert_close(sdpa(q, k, k, mask), sdpa(q, k.contiguous(), k.contiguous(), additive))
    assert sdpa(q[:0], k, k, None).shape == (0, 4, 6)


def test_visible_columns() -> None:
    assert block_mask(4, "bidirectional") is None
    causal, blocks = block_mask(4, "causal"), block_mask(5, "block", 2)
    assert causal is not None
    assert blocks is not None
    assert causal.tolist() == torch.ones(4, 4).tril().bool().tolist()
    assert blocks.sum(-1).tolist() == [2, 2, 4, 4, 5]


def test_visible_counts_blocks_from_column_zero() -> None:
    mask = visible(torch.tensor([5]), torch.arange(10), "block", 4)
    assert mask is not None
    assert mask.sum().item() == 8
