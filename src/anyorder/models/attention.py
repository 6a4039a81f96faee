"""Scaled dot-product attention of one sequence, and the masks that the three attention regimes allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from anyorder.window import Attention


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Grouped-query attention without repeating keys or values: a group's queries are stacked along the rows.

    Args:
        q: [Tq, H, D]; query head h reads key head h // (H / Hkv).
        k, v: [Hkv, Tk, D], any strides.
        mask: [Tq, Tk] bool, True where a query may look; every row needs one True. None: everywhere. The additive
            form (0 and -inf in the dtype of q) is taken, too, and saves a conversion in every layer.
    Returns:
        [Tq, H, D]
    """
    tokens, heads, width = q.shape
    groups = heads // k.shape[0]
    if tokens == 1 and mask is None:  # already stacked; at one token per pass the rearranging costs as much as the rest
        mixed = F.scaled_dot_product_attention(q.view(1, k.shape[0], groups, width), k[None], v[None])
        return mixed.view(1, heads, width)
    stacked = q.view(tokens, k.shape[0], groups, width).permute(1, 2, 0, 3).reshape(1, k.shape[0], -1, width)
    if mask is not None and mask.shape[0] != groups * tokens:
        mask = mask.repeat(groups, 1)
    # four dimensions: the fused CPU kernels do not take three
    mixed = F.scaled_dot_product_attention(stacked, k[None], v[None], attn_mask=mask)
    return mixed.view(k.shape[0], groups, tokens, width).permute(2, 0, 1, 3).reshape(tokens, heads, width)


def stacked_mask(mask: Tensor, groups: int, dtype: torch.dtype) -> Tensor:
    """[Tq, Tk] bool -> [G * Tq, Tk] of `dtype`, 0 where a query may look and -inf elsewhere: what `sdpa` works with."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf).repeat(groups, 1)


def visible(rows: Tensor, columns: Tensor, attention: Attention, block_length: int = 1) -> Tensor | None:
    """Which columns each row may look at.

    Args:
        rows: [Tq] int64 columns of the queries, columns: [Tk] int64 columns of the keys, both counted from 0.
        attention: see `anyorder.window.Window`; blocks of `block_length` are counted from column 0.
    Returns:
        [Tq, Tk] bool, or None when every row sees every column.
    """
    if attention == "bidirectional":
        return None
    if attention == "block":
        rows, columns = rows // block_length, columns // block_length
    return columns[None, :] <= rows[:, None]


def attend_alone(mask: Tensor | None) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    """An `Attend` for one sequence fed whole and without a cache; `mask` [T, T] bool or None.

    Only for a forward that wants every row.
    """

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q, k.transpose(0, 1), v.transpose(0, 1), mask)

    return attend


def block_mask(length: int, attention: Attention, block_length: int = 1) -> Tensor | None:
    """`visible` of a sequence of `length` tokens to itself, on the CPU."""
    columns = torch.arange(length)
    return visible(columns, columns, attention, block_length)
