"""Where the keys and values of one request lie: one column per canvas column, per layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

Shape = tuple[int, int]
"""Heads of the keys (and of the values) of a layer, and their width."""


class KVStorage:
    """Keys and values of one request; layers of one shape lie in one tensor.

    Args:
        shapes: (heads, width) of every layer.
        capacity: columns of the longest canvas.
    """

    def __init__(self, *, shapes: Sequence[Shape], capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        kinds = dict.fromkeys(shapes)
        self._places = [(list(kinds).index(shape), shapes[:layer].count(shape)) for layer, shape in enumerate(shapes)]
        sizes = [(shapes.count(shape), shape[0], capacity, shape[1]) for shape in kinds]
        empty = [[torch.empty(size, dtype=dtype, device=device) for size in sizes] for _ in range(2)]
        self._hold(*empty)

    def _hold(self, keys: list[Tensor], values: list[Tensor]) -> None:
        self._keys, self._values = keys, values  # each [layers of a shape, heads, columns, width]
        self.by_layer = [(keys[kind][place], values[kind][place]) for kind, place in self._places]

    @property
    def keys(self) -> list[Tensor]:
        """Of every layer, a view [Hkv, columns, D]."""
        return [keys for keys, _ in self.by_layer]

    @property
    def values(self) -> list[Tensor]:
        """Of every layer, a view [Hkv, columns, D]."""
        return [values for _, values in self.by_layer]

    @property
    def _all(self) -> list[Tensor]:
        return [*self._keys, *self._values]

    def part(self, start: int, columns: int) -> KVStorage:
        """The columns `start` to `start + columns - 1` as a storage of their own, in the same memory."""
        part = copy.copy(self)
        part._hold(*([t.narrow(2, start, columns) for t in side] for side in (self._keys, self._values)))
        return part

    @property
    def capacity(self) -> int:
        """Columns that fit."""
        return self._keys[0].shape[2]

    @property
    def num_bytes(self) -> int:
        """Memory of keys and values together."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._all)

    def update(self, layer: int, start: int, visible: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the window's columns in place and return all visible ones.

        Args:
            start: column of the first new key.
            visible: columns to return.
            k, v: [T, Hkv, D].
        Returns:
            keys and values, each a view [Hkv, visible, D].
        """
        keys, values = self.by_layer[layer]
        keys.narrow(1, start, k.shape[0]).copy_(k.transpose(0, 1))  # slicing would cost twice the dispatch
        values.narrow(1, start, v.shape[0]).copy_(v.transpose(0, 1))
        return keys.narrow(1, 0, visible), values.narrow(1, 0, visible)

    def move(self, columns: Tensor, start: int) -> None:
        """Move columns, [M] int64, to `start` and the ones behind it; the places may overlap."""
        for stored in self._all:
            chosen = columns.to(stored.device, non_blocking=True)
            stored.narrow(2, start, columns.shape[0]).copy_(stored.index_select(2, chosen))

    def gather(self, source: KVStorage, columns: Tensor) -> None:
        """Take over columns of another storage, [M] int64, as the first M of this one."""
        for stored, other in zip(self._all, source._all, strict=True):
            chosen = columns.to(stored.device)
            stored.narrow(2, 0, columns.shape[0]).copy_(other.index_select(2, chosen))

    def scatter(self, columns: Tensor, source: KVStorage, taken: Tensor) -> None:
        """Write the columns `taken` of another storage to `columns` of this one, both [M] int64."""
        for stored, other in zip(self._all, source._all, strict=True):
            stored.index_copy_(2, columns.to(stored.device), other.index_select(2, taken.to(stored.device)))

    def reserve(self, capacity: int) -> None:
        """Make room for at least `capacity` columns, keeping what is stored."""
        if capacity <= self.capacity:
            return
        capacity = max(capacity, 2 * self.capacity)
        self._hold(*([_longer(t, capacity) for t in side] for side in (self._keys, self._values)))


def _longer(old: Tensor, capacity: int) -> Tensor:
    new = old.new_empty((*old.shape[:2], capacity, old.shape[3]))
    new[:, :, : old.shape[2]] = old
    return new
