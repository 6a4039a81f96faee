"""Who runs, who waits, who leaves: everything between two passes. One thread at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence
from anyorder.errors import AnyorderError, Cancelled, ContextError, DeadlineExceeded, EngineFailed, ServingError
from anyorder.events import Committed, Event, Finished
from anyorder.runner import Runner
from anyorder.serving.job import Job
from anyorder.serving.metrics import Metrics
from anyorder.serving.pool import StoragePool
from anyorder.serving.prefix import PrefixCache
from anyorder.serving.queue import FairQueue, order
from anyorder.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


class Scheduler:
    """Admits jobs as room permits, says who takes part in the next pass, hands out what it caused.

    A pass is `prepare`, `Engine.step`, `settle`. A job is admitted when the columns and the tokens per pass that it
    comes to need at most are free; they are its own to the end, so no admitted job ever runs out of memory. The queue's
    first job is never passed over for a smaller one.

    Args:
        clock: seconds since some fixed point.
    """

    def __init__(
        self, model: LoadedModel, settings: ServiceSettings, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        runner = Runner(model.network, model.adapter)
        self.engine = Engine(runner, isolate=True)
        columns = settings.kv_bytes // runner.storage(1).num_bytes
        kept = int(columns * settings.prefix_share)
        self.pool = StoragePool(runner.storage(columns - kept))
        self.prefixes = PrefixCache(runner.storage(kept), settings.prefix_unit)
        self.queue = FairQueue()
        self.running: dict[int, Job] = {}

    @property
    def busy(self) -> bool:
        """True as long as there is a job."""
        return bool(self.running or len(self.queue))

    def check(self, job: Job) -> None:
        """Refuse a job that would not fit if it were alone.

        Raises:
            ContextError: it needs more than there is.
        """
        if job.columns > self.pool.total:
            raise ContextError(
                f"prompt, answer and drafts need {job.columns} columns of keys and values; this service has "
                f"{self.pool.total} for running requests: shorten them, or start it with more `kv_bytes`"
            )
        if job.pass_tokens > self.settings.pass_tokens:
            raise ContextError(
                f"a pass over the canvas of this request feeds up to {job.pass_tokens} tokens; this service computes "
                f"{self.settings.pass_tokens} at most: shorten it, or start the service with more `pass_tokens`"
            )

    def prepare(self) -> list[Sequence]:
        """Let go of who is done for, admit who fits; the sequences of the next pass."""
        self._sweep()
        while (job := self.queue.first) is not None and self._fits(job):
            self._admit(self.queue.pop())
        return self._batch()

    def settle(self, batch: list[Sequence], events: list[Event]) -> None:
        """Hand out the events of a pass and let the finished go."""
        self.metrics.passes += 1
        self.metrics.sequence_passes += len(batch)
        self._hand_out(events)
        taken = {sequence.decoder.canvas.request for sequence in batch}
        for number in taken & self.running.keys():
            self._after_pass(self.running[number])

    def fail_all(self, make: Callable[[], ServingError]) -> None:
        """End every job, each with an error of its own."""
        for job in [*self.running.values(), *self.queue.take(lambda _: True)]:
            self._end(job, make())

    def _sweep(self) -> None:
        now = self.clock()
        for job in [*self.queue.take(lambda job: _unwanted(job, now)), *self.running.values()]:
            if job.ticket.cancelled:
                self.metrics.cancelled += 1
                self._end(job, Cancelled("the request was given up"))
            elif _unwanted(job, now):
                self.metrics.expired += 1
                self._end(
                    job, DeadlineExceeded(f"no answer within {job.work.deadline_s} s; allow more time or fewer tokens")
                )

    def _fits(self, job: Job) -> bool:
        """Take the room that a job needs, if there is."""
        tokens = sum(other.pass_tokens for other in self.running.values()) + job.pass_tokens
        if len(self.running) >= self.settings.max_running or tokens > self.settings.pass_tokens:
            return False
        if job.columns:
            job.lease = self.pool.take(job.columns)
        return job.lease is not None or not job.columns

    def _admit(self, job: Job) -> None:
        waited = job.ticket.timing.queued_s = self.clock() - job.submitted_at
        self.metrics.started += 1
        self.metrics.queued_s += waited
        self.metrics.queued_max_s = max(self.metrics.queued_max_s, waited)
        self.running[job.number] = job
        job.sequence = Sequence(
            job.decoder,
            job.lease.storage if job.lease else None,
            job.params.measure_drift,
            prefill=job.prefill(self.settings.prefill_tokens),
        )
        self._hand_out(self.engine.add(job.sequence))
        self._restore(job)
        self._reap(job)

    def _restore(self, job: Job) -> None:
        """Begin behind what earlier requests computed."""
        self.metrics.prompt_tokens += job.ticket.prompt_tokens
        if job.prefix is None or job.lease is None:
            return
        block = job.params.block_length or 1
        cached = self.prefixes.restore(job.lease.storage, job.ids, job.prefix, salt=job.work.salt, block=block)
        if cached:
            job.decoder.resume(cached)
            job.ticket.cached_tokens = cached
            self.metrics.cached_tokens += cached
            self.metrics.prefix_hits += 1

    def _batch(self) -> list[Sequence]:
        """Everybody who decodes, and of those who still read their prompt as many as the bound allows."""
        batch: list[Sequence] = []
        tokens = 0
        for job in sorted(self.running.values(), key=order):
            assert job.sequence is not None
            own = job.sequence.prompt_tokens
            if own and tokens and tokens + own > self.settings.prefill_tokens:
                continue
            tokens += own
            batch.append(job.sequence)
        return batch

    def _hand_out(self, events: list[Event]) -> None:
        for event in events:
            job = self.running[event.request]
            if isinstance(event, Committed):
                self.metrics.tokens += len(event.slots)
                timing = job.ticket.timing
                timing.first_commit_s = timing.first_commit_s or self.clock() - job.submitted_at
            if isinstance(event, Finished):
                self.metrics.positions += event.positions
            job.ticket.put(event)

    def _after_pass(self, job: Job) -> None:
        timing, sequence = job.ticket.timing, job.sequence
        assert sequence is not None
        timing.first_pass_s = timing.first_pass_s or self.clock() - job.submitted_at
        if sequence.prefill is None and not job.kept and sequence.failure is None:
            job.kept = True
            self._keep(job, job.decoder.canvas.answer_start)
        self._reap(job)

    def _reap(self, job: Job) -> None:
        sequence = job.sequence
        assert sequence is not None
        if sequence.failure is not None:
            self.metrics.failed += 1
            failed = EngineFailed(f"this request failed in the engine: {_told(sequence.failure)}")
            failed.__cause__ = sequence.failure
            self._end(job, failed)
        elif not sequence.running:
            self.metrics.finished += 1
            self._keep(job, len(job.decoder.canvas))
            self._end(job, None)

    def _keep(self, job: Job, columns: int) -> None:
        """Keep what is stored for good for later requests, up to a column."""
        if job.prefix is not None and job.lease is not None:
            ids = job.decoder.canvas.ids[: min(columns, job.decoder.stored)].tolist()
            self.prefixes.keep(job.lease.storage, ids, job.prefix, salt=job.work.salt)

    def _end(self, job: Job, error: ServingError | None) -> None:
        """Free what a job holds and close its ticket."""
        self.running.pop(job.number, None)
        if job.sequence is not None:
            self.engine.remove(job.sequence)
        if job.lease is not None:
            self.pool.give(job.lease)
        job.ticket.timing.total_s = self.clock() - job.submitted_at
        job.ticket.close(error)


def _unwanted(job: Job, now: float) -> bool:
    return job.ticket.cancelled or (job.expires_at is not None and now >= job.expires_at)


def _told(error: Exception) -> str:
    """What a client may read of an error: our own are written for people, others may hold anything."""
    return str(error) if isinstance(error, AnyorderError) else type(error).__name__
