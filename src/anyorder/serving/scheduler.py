"""Who runs, who waits, who leaves: everything between two passes. One thread at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from anyorder.decoders.scorers import Scorer
from anyorder.engine.loop import Engine
from anyorder.engine.sequence import Sequence
from anyorder.errors import AnyorderError, Cancelled, ContextError, DeadlineExceeded, EngineFailed, ServingError
from anyorder.events import Committed, Event
from anyorder.runner import Runner
from anyorder.serving.eviction import victims
from anyorder.serving.job import Job
from anyorder.serving.memory import KVMemory
from anyorder.serving.metrics import Metrics
from anyorder.serving.queue import FairQueue, order
from anyorder.serving.settings import ServiceSettings
from anyorder.serving.ticket import Computed

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_log = logging.getLogger(__name__)


class Scheduler:
    """Admits jobs as room permits, says who takes part in the next pass, hands out what it caused.

    A pass is `prepare`, `Engine.step`, `settle`. A job is admitted when the columns that it comes to need at most are
    free; they are its own to the end, so no admitted job runs out of memory. The queue's first job is never passed over
    for a smaller one.

    Where more jobs are there than share a pass, those go first that are due first. So an urgent job that finds memory
    takes part in the next pass, and the least urgent one rests meanwhile. If it finds none, the most patient ones give
    it theirs and wait again: see `eviction`. Nobody rests or waits for ever: see `queue.order`.

    Args:
        clock: seconds since some fixed point.
    """

    def __init__(
        self, model: LoadedModel, settings: ServiceSettings, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self.runner = Runner(model.network, model.adapter)
        self.memory = KVMemory(self.runner, settings)
        self._begin()

    def _begin(self) -> None:
        self.engine = Engine(self.runner, isolate=True)
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
        columns, tokens = self.memory.pool.total, self.settings.pass_tokens
        if job.columns > columns:
            raise ContextError(
                f"prompt, answer and drafts need {job.columns} columns of keys and values; this service has {columns} "
                "for running requests: shorten them, or start it with more `kv_bytes`"
            )
        if job.pass_tokens > tokens:
            raise ContextError(
                f"a pass of this request feeds up to {job.pass_tokens} tokens; this service computes {tokens} at "
                "most: shorten its canvas, or start the service with more `pass_tokens`"
            )

    def prepare(self) -> list[Sequence]:
        """Let go of who is done for, admit who fits; the sequences of the next pass."""
        self._sweep()
        while (job := self.queue.first) is not None and self._fits(job):
            self._admit(self.queue.pop())
        return [job.sequence for job in self._batch() if job.sequence is not None]

    def settle(self, batch: list[Sequence], events: list[Event]) -> None:
        """Hand out the events of a pass and let the finished go."""
        self.metrics.passes += 1
        self.metrics.sequence_passes += len(batch)
        self.metrics.scoring_passes += sum(isinstance(sequence.decoder, Scorer) for sequence in batch)
        self._hand_out(events)
        for sequence in batch:
            self._after_pass(self.running[sequence.decoder.canvas.request], sequence)

    def reset(self, make: Callable[[], ServingError]) -> int:
        """End every job with an error of its own and begin anew, whatever state things are in; how many there were."""
        jobs = [*self.running.values(), *self.queue]
        self._begin()
        self.memory.clear()
        for job in jobs:
            self._close(job, make())
        return len(jobs)

    def _sweep(self) -> None:
        """End the jobs that nobody waits for any more."""
        now = self.clock()
        waiting = self.queue.take(lambda job: _is_over(job, now))
        for job in [*waiting, *(job for job in self.running.values() if _is_over(job, now))]:
            if job.ticket.cancelled:
                self.metrics.cancelled += 1
                self._end(job, Cancelled("the request was given up"))
            else:
                self.metrics.expired += 1
                limit = f"no answer within {job.work.deadline_s} s"
                self._end(job, DeadlineExceeded(f"{limit}; allow more time or ask for fewer tokens"))

    def _fits(self, job: Job) -> bool:
        """Take the memory that a job needs, if there is, and if it would take part in the next pass."""
        ahead = [other for other in self.running.values() if order(other) < order(job)]
        tokens = sum(other.pass_tokens for other in ahead) + job.pass_tokens
        shares = len(ahead) < self.settings.max_running and tokens <= self.settings.pass_tokens
        return shares and (self.memory.take(job) or self._take_from_others(job))

    def _take_from_others(self, job: Job) -> bool:
        """Take the memory of more patient jobs, which wait again; False if there is too little of it."""
        evicted = victims(job, self.running.values(), self.memory)
        for other in evicted:
            self._evict(other)
        return bool(evicted) and self.memory.take(job)

    def _evict(self, job: Job) -> None:
        """Let a job wait for memory again; what it has stored is kept for it as long as there is room for that."""
        sequence, reread = job.sequence, job.prefill(self.settings.prefill_tokens)
        assert sequence is not None
        assert reread is not None
        self.memory.keep(job, job.decoder.stored)
        sequence.lose(reread)
        self.memory.give(job)
        self.engine.remove(sequence)
        del self.running[job.number]
        job.evicted = True
        self.metrics.evicted += 1
        self.queue.put_back(job)

    def _admit(self, job: Job) -> None:
        self.running[job.number] = job
        storage = job.lease.storage if job.lease else None
        if job.sequence is not None:
            job.sequence.storage = storage
            self.engine.sequences.append(job.sequence)
            self._restore(job)
            return
        prefill = job.prefill(self.settings.prefill_tokens)
        job.sequence = Sequence(job.decoder, storage, job.params.measure_drift, prefill=prefill)
        job.ticket.timing.queued_s = self._since(job)
        self.metrics.began(job.ticket)
        self._restore(job)
        self._hand_out(self.engine.add(job.sequence))
        self._reap(job, job.sequence)

    def _restore(self, job: Job) -> None:
        """Take over what others computed of a prompt, and see whether somebody is about to compute more."""
        restored = self.memory.restore(job)
        if not job.evicted:  # what it had computed itself is no gift of others
            self.metrics.restored(job.ticket, restored)
        stored = job.decoder.stored
        reading = (o for o in self.running.values() if not o.kept and order(o) < order(job))
        job.leader = next(
            (o for o in reading if 2 * (self.memory.shared(job, o) - stored) >= len(job.keys) - stored), None
        )

    def _follows(self, job: Job) -> bool:
        """True while a job waits for another one that reads the same prompt."""
        leader = job.leader
        if leader is not None and (leader.kept or leader.number not in self.running):
            self._restore(job)
        return job.leader is not None

    def _batch(self) -> Iterable[Job]:
        """The first in their order, as far as the limits go: of requests, of their tokens, of prompt tokens."""
        settings, count, tokens, prompt_tokens = self.settings, 0, 0, 0
        for job in sorted(self.running.values(), key=order):
            if self._follows(job):
                continue
            assert job.sequence is not None
            reading = job.sequence.prompt_tokens
            crowded = prompt_tokens > 0 and prompt_tokens + reading > settings.prefill_tokens and reading > 0
            if count == settings.max_running or tokens + job.pass_tokens > settings.pass_tokens or crowded:
                continue
            count, tokens, prompt_tokens = count + 1, tokens + job.pass_tokens, prompt_tokens + reading
            yield job

    def _hand_out(self, events: list[Event]) -> None:
        for event in events:
            job = self.running[event.request]
            if isinstance(event, Committed):
                job.ticket.timing.committed(self._since(job))
            self.metrics.count(event)
            job.ticket.put(event, Computed(job.decoder.passes, job.decoder.positions))

    def _after_pass(self, job: Job, sequence: Sequence) -> None:
        job.ticket.timing.passed(self._since(job))
        if sequence.prefill is None and not job.kept and sequence.failure is None:
            job.kept = True
            self.memory.keep(job, job.decoder.canvas.answer_start)
        self._reap(job, sequence)

    def _reap(self, job: Job, sequence: Sequence) -> None:
        """End a job that has finished or failed."""
        if sequence.failure is not None:
            _log.error("request %s failed in the engine", job.work.tag, exc_info=sequence.failure)
            self.metrics.failed += 1
            failed = EngineFailed(f"this request failed in the engine: {_told(sequence.failure)}")
            failed.__cause__ = sequence.failure
            self._end(job, failed)
        elif not sequence.running:
            self.metrics.finished += 1
            self.memory.keep(job, len(job.decoder.canvas))
            self._end(job, None)

    def _end(self, job: Job, error: ServingError | None) -> None:
        """Free what a job holds and close its ticket."""
        if self.running.pop(job.number, None) is not None and job.sequence is not None:
            self.engine.remove(job.sequence)
        self.memory.give(job)
        self._close(job, error)

    def _since(self, job: Job) -> float:
        """Seconds since it was submitted."""
        return self.clock() - job.submitted_at

    def _close(self, job: Job, error: ServingError | None) -> None:
        job.ticket.timing.total_s = self._since(job)
        _log.debug("request %s ended: %s", job.work.tag, type(error).__name__ if error else "answered")
        job.ticket.close(error)


def _is_over(job: Job, now: float) -> bool:
    """Nobody waits for its answer."""
    return job.ticket.cancelled or (job.expires_at is not None and now >= job.expires_at)


def _told(error: Exception) -> str:
    """What a client may read of an error: our own are written for people, others may hold anything."""
    return str(error) if isinstance(error, AnyorderError) else type(error).__name__
