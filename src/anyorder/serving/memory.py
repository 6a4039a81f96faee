"""The memory of a service: columns for running requests and columns for finished prefixes, sized once from a budget."""

from __future__ import annotations

from collections.abc import Iterable

from anyorder.errors import ParameterError
from anyorder.runner import Runner
from anyorder.serving.job import Job
from anyorder.serving.pool import StoragePool
from anyorder.serving.prefix import PrefixCache
from anyorder.serving.settings import ServiceSettings


class KVMemory:
    """Keys and values of all requests.

    Raises:
        ParameterError: the budget holds not even one column.
    """

    def __init__(self, runner: Runner, settings: ServiceSettings) -> None:
        column = runner.storage(1).num_bytes
        columns = settings.kv_bytes // column
        if not columns:
            raise ParameterError(
                f"`kv_bytes` is {settings.kv_bytes}, and one token's keys and values take {column}; give more",
                param="kv_bytes",
            )
        kept = int(columns * settings.prefix_share)
        self.unit = settings.prefix_unit
        self.pool = StoragePool(runner.storage(columns - kept))
        self.prefixes = PrefixCache(runner.storage(kept), self.unit)

    @property
    def num_bytes(self) -> int:
        """All of it."""
        return self.pool.memory.num_bytes + self.prefixes.memory.num_bytes

    def clear(self) -> None:
        """Forget everything: nobody runs, and what is stored may be damaged. The memory stays."""
        self.pool = StoragePool(self.pool.memory)
        self.prefixes = PrefixCache(self.prefixes.memory, self.unit)

    def take(self, job: Job) -> bool:
        """Reserve the columns that a job needs to its end; False if there is no room now."""
        if job.columns:
            job.lease = self.pool.take(job.columns)
        return job.lease is not None or not job.columns

    def fits(self, job: Job, without: Iterable[Job]) -> bool:
        """True if a job would have room were it not for what some others hold."""
        return self.pool.fits(job.columns, [other.lease for other in without if other.lease is not None])

    def give(self, job: Job) -> None:
        """Free what a job holds."""
        if job.lease is not None:
            self.pool.give(job.lease)
            job.lease = None

    def restore(self, job: Job) -> int:
        """Let a job begin behind what others computed; the columns of its prompt that it has now."""
        if job.prefix is None or job.lease is None:
            return 0
        block = job.params.block_length or 1
        columns = self.prefixes.restore(job.lease.storage, job.known_keys, job.prefix, salt=job.work.salt, block=block)
        if columns > job.decoder.stored:
            job.decoder.resume(columns)
        return job.decoder.stored

    def shared(self, job: Job, other: Job) -> int:
        """Leading columns that a job could take over from another one, once that has computed its prompt."""
        if job.prefix is None or job.lease is None or (job.prefix, job.work.salt) != (other.prefix, other.work.salt):
            return 0
        pairs = zip(job.keys[:-1], other.keys, strict=False)
        same = next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(job.keys) - 1, len(other.keys)))
        unit = self.prefixes.size(job.prefix)
        return min(same, self.prefixes.total) // unit * unit

    def keep(self, job: Job, columns: int) -> None:
        """Keep what a job has stored for good, up to a column, for later ones."""
        if job.prefix is not None and job.lease is not None:
            keys = job.decoder.canvas.keys(min(columns, job.decoder.stored))
            self.prefixes.keep(job.lease.storage, keys, job.prefix, salt=job.work.salt)
