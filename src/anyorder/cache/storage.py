"""Where the keys and values of one request lie: one column per canvas column, per layer."""

from __future__ import annotations

import copy

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
        self._hold(torch.empty(shape, dtype=dtype, device=device), torch.empty(shape, dtype=dtype, device=device))

    def _hold(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self._by_layer = list(zip(keys, values, strict=True))

    def part(self, start: int, columns: int) -> KVStorage:
        """The columns `start` to `start + columns - 1` as a storage of their own, in the same memory."""
        part = copy.copy(self)
        part._hold(self.keys.narrow(2, start, columns), self.values.narrow(2, start, columns))
        return part

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

    def gather(self, source: KVStorage, columns: Tensor) -> None:
        """Take over columns of another storage, [M] int64, as the first M of this one."""
        columns = columns.to(self.keys.device)
        for stored, other in ((self.keys, source.keys), (self.values, source.values)):
            stored.narrow(2, 0, columns.shape[0]).copy_(other.index_select(2, columns))

    def scatter(self, columns: Tensor, source: KVStorage, taken: Tensor) -> None:
        """Write the columns `taken` of another storage to `columns` of this one, both [M] int64."""
        columns, taken = columns.to(self.keys.device), taken.to(self.keys.device)
        for stored, other in ((self.keys, source.keys), (self.values, source.values)):
            stored.index_copy_(2, columns, other.index_select(2, taken))

    def reserve(self, capacity: int) -> None:
        """Make room for at least `capacity` columns, keeping what is stored."""
        if capacity <= self.capacity:
            return
        capacity = max(capacity, 2 * self.capacity)
        self._hold(_longer(self.keys, capacity), _longer(self.values, capacity))


def _longer(old: Tensor, capacity: int) -> Tensor:
    new = old.new_empty((*old.shape[:2], capacity, old.shape[3]))
    new[:, :, : old.shape[2]] = old
    return new
