"""Finished prefixes of earlier requests, kept for later ones that begin with the same tokens."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import torch

from anyorder.cache.storage import KVStorage
from anyorder.window import Attention


class PrefixCache:
    """Columns by what they depend on: the tokens up to them, the kind of attention, the salt.

    Tokens are kept in units of fixed size. A unit is found under a digest of everything in front of it and itself, so
    what is found is what would be computed. The least recently used units give way, the ends of texts before their
    beginnings.

    Args:
        memory: holds what is kept; its capacity is the limit.
        unit: tokens per unit, rounded up to whole blocks where finished columns come in blocks.
    """

    def __init__(self, memory: KVStorage, unit: int) -> None:
        self.memory = memory
        self.unit = unit
        self._units: OrderedDict[bytes, list[int]] = OrderedDict()  # digest -> columns, least recently used first
        self._free: list[int] = []  # columns that were in use before
        self._fresh = 0  # first column that was never in use

    @property
    def total(self) -> int:
        """Columns that can be kept."""
        return self.memory.capacity

    @property
    def used(self) -> int:
        """Columns that are kept."""
        return self._fresh - len(self._free)

    def restore(
        self, storage: KVStorage, ids: Sequence[int], kind: tuple[Attention, int], *, salt: str = "", block: int = 1
    ) -> int:
        """Copy the longest kept prefix to the beginning of a storage.

        Args:
            ids: of the prompt; its last column is left to be computed, since its logits are wanted.
            kind: see `anyorder.request.needs.exact_prefix`.
            block: the request takes whole blocks of this length only.
        Returns:
            columns that need not be computed.
        """
        found = self._known(ids[:-1], kind, salt)
        columns = [column for digest in found for column in self._units[digest]]
        columns = columns[: len(columns) // block * block]
        if columns:
            storage.gather(self.memory, torch.tensor(columns))
        return len(columns)

    def keep(self, storage: KVStorage, ids: Sequence[int], kind: tuple[Attention, int], *, salt: str = "") -> None:
        """Copy finished columns, those of `ids`, as far as they are not kept yet and there is room."""
        unit = self.size(kind)
        ids = ids[: self.total // unit * unit]
        self._known(ids, kind, salt)  # they are in use
        columns: list[int] = []
        taken: list[int] = []
        for index, digest in enumerate(self._digests(ids, kind, salt)):
            if digest not in self._units:
                self._units[digest] = self._room(unit)
                columns += self._units[digest]
                taken += range(index * unit, (index + 1) * unit)
        if columns:  # in one copy: a unit at a time would cost a launch each
            self.memory.scatter(torch.tensor(columns), storage, torch.tensor(taken))
        self._known(ids, kind, salt)

    def _known(self, ids: Sequence[int], kind: tuple[Attention, int], salt: str) -> list[bytes]:
        """The digests of the leading units that are kept; they become the most recently used."""
        known: list[bytes] = []
        for digest in self._digests(ids, kind, salt):
            if digest not in self._units:
                break
            known.append(digest)
        for digest in reversed(known):
            self._units.move_to_end(digest)
        return known

    def _digests(self, ids: Sequence[int], kind: tuple[Attention, int], salt: str) -> Iterator[bytes]:
        unit = self.size(kind)
        digest = hashlib.sha256(repr((kind, salt)).encode("utf-8", "surrogatepass")).digest()
        for start in range(0, len(ids) - unit + 1, unit):
            digest = hashlib.sha256(digest + array("q", ids[start : start + unit]).tobytes()).digest()
            yield digest

    def size(self, kind: tuple[Attention, int]) -> int:
        """Tokens of a unit."""
        return -(-self.unit // kind[1]) * kind[1]

    def _room(self, columns: int) -> list[int]:
        """Free columns, made free where there are too few."""
        while self.total - self.used < columns:
            self._free += self._units.popitem(last=False)[1]
        taken = [self._free.pop() for _ in range(min(columns, len(self._free)))]
        fresh = range(self._fresh, self._fresh + columns - len(taken))
        self._fresh = fresh.stop
        return [*taken, *fresh]
