"""Keys and values of the running requests: one piece of memory, lent out in ranges of columns."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from anyorder.cache.storage import KVStorage


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """A range of columns in use."""

    start: int
    columns: int
    storage: KVStorage


class StoragePool:
    """Lends ranges of one storage. Nothing is allocated after the start, so nothing can run out midway."""

    def __init__(self, memory: KVStorage) -> None:
        self.memory = memory
        self._leases: list[Lease] = []  # ascending

    @property
    def total(self) -> int:
        """Columns there are."""
        return self.memory.capacity

    @property
    def used(self) -> int:
        """Columns that are lent."""
        return sum(lease.columns for lease in self._leases)

    def take(self, columns: int) -> Lease | None:
        """The first free range of `columns` columns, or None if there is none now."""
        start = self._free(columns, self._leases)
        if start is None:
            return None
        lease = Lease(start, columns, self.memory.part(start, columns))
        insort(self._leases, lease, key=lambda other: other.start)
        return lease

    def fits(self, columns: int, without: Collection[Lease]) -> bool:
        """True if there would be a free range were it not for some leases."""
        return self._free(columns, [lease for lease in self._leases if lease not in without]) is not None

    def _free(self, columns: int, leases: Sequence[Lease]) -> int | None:
        """Where the first gap of that size between ascending leases begins."""
        start = 0
        for lease in leases:
            if lease.start - start >= columns:
                break
            start = lease.start + lease.columns
        return start if start + columns <= self.total else None

    def give(self, lease: Lease) -> None:
        """Take a range back."""
        self._leases.remove(lease)
