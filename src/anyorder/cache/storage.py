"""Where the keys and values of one request lie: one column per canvas column, per layer."""

from __future__ import annotations

import torch
from torch import Tensor


class KVStorage:
    """Keys and values of one request.

    Args:
        num_layers, num_kv_heads, head_dim: of the network.
        capacity: columns of the longest canvas.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        shape = (num_layers, num_kv_heads, capacity, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self._by_layer = list(zip(self.keys, self.values, strict=True))

    @property
    def capacity(self) -> int:
        """Columns that fit."""
        return self.keys.shape[2]

    @property
    def num_bytes(self) -> int:
        """Memory of keys and values together."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def update(self, layer: int, start: int, visible: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the window's columns in place and return all visible ones.

        Args:
            start: column of the first new key.
            visible: columns to return.
            k, v: [T, Hkv, D].
        Returns:
            keys and values, each a view [Hkv, visible, D].
        """
        keys, values = self._by_layer[layer]
        keys.narrow(1, start, k.shape[0]).copy_(k.transpose(0, 1))  # slicing would cost twice the dispatch
        values.narrow(1, start, v.shape[0]).copy_(v.transpose(0, 1))
        return keys.narrow(1, 0, visible), values.narrow(1, 0, visible)

    def move(self, columns: Tensor, start: int) -> None:
        """Move columns, [M] int64, to `start` and the ones behind it; the places may overlap."""
        columns = columns.to(self.keys.device, non_blocking=True)
        for stored in (self.keys, self.values):
            stored.narrow(2, start, columns.shape[0]).copy_(stored.index_select(2, columns))

    def reserve(self, capacity: int) -> None:
        """Make room for at least `capacity` columns, keeping what is stored."""
        if capacity <= self.capacity:
            return
        capacity = max(capacity, 2 * self.capacity)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_empty((*old.shape[:2], capacity, old.shape[3]))
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)
        self._by_layer = list(zip(self.keys, self.values, strict=True))
