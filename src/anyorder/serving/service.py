"""The service: a scheduler in a thread of its own, and the door to it."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from anyorder.errors import EngineFailed, Overloaded, ServingError, Unavailable
from anyorder.serving.job import Job, make_job
from anyorder.serving.metrics import Metrics, ServiceStatus
from anyorder.serving.scheduler import Scheduler
from anyorder.serving.score_job import make_score_job
from anyorder.serving.seam_job import make_seam_job
from anyorder.serving.settings import ServiceSettings
from anyorder.serving.ticket import Ticket
from anyorder.serving.work import AnyWork, ScoreWork, SeamWork, Work

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

_log = logging.getLogger(__name__)


class Service:
    """Answers many requests at once with one model.

    Every method may be called from any thread. The lock guards everything but the passes themselves.
    """

    def __init__(self, model: LoadedModel, settings: ServiceSettings | None = None) -> None:
        self.model = model
        self.settings = settings or ServiceSettings()
        self.metrics = Metrics()
        self._changed = threading.Condition()
        self._scheduler = Scheduler(model, self.settings, self.metrics, time.monotonic)
        self._thread: threading.Thread | None = None
        self._accepting = False
        self._draining = False  # what was let in may still go on
        self._stopping = False
        self._failures = 0  # of the engine since the last finished answer
        self._finished_before = 0
        self._pass_began: float | None = None

    def start(self) -> None:
        """Begin to work."""
        with self._changed:
            assert self._thread is None, "a service is started once"
            self._accepting = True
            self._thread = threading.Thread(target=self._run, name="anyorder-engine", daemon=True)
            self._thread.start()

    def submit(self, work: AnyWork) -> Ticket:
        """Take on a piece of work.

        Raises:
            ParameterError, ContextError, ModelError: it can never be done.
            Overloaded: too many are waiting.
            Unavailable: the service is not started, is shutting down, or its engine died.
        """
        with self._changed:
            self._check_open(work)
            scheduler = self._scheduler
            self.metrics.submitted += 1
            number, together = self.metrics.submitted, len(scheduler.running) + len(scheduler.queue) + 1
        job = self._job(work, number, together)
        if isinstance(work, Work) and work.params.draft == "auto" and job.columns > self._scheduler.memory.pool.total:
            job = self._job(work, number, together=together + 1)  # there may be room without drafts
        with self._changed:
            self._check_open(work)
            self._scheduler.check(job)
            self._scheduler.queue.push(job)
            self._changed.notify_all()
        return job.ticket

    def _job(self, work: AnyWork, number: int, together: int) -> Job:
        patience = self.settings.patience(work.priority)
        settings, now = self.settings, time.monotonic()
        if isinstance(work, ScoreWork):
            return make_score_job(self.model, work, settings=settings, number=number, now=now, patience=patience)
        if isinstance(work, SeamWork):
            return make_seam_job(self.model, work, settings=settings, number=number, now=now, patience=patience)
        return make_job(self.model, work, number=number, together=together, now=now, patience=patience)

    def _check_open(self, work: AnyWork) -> None:
        if work.continues and (self._accepting or self._draining):
            return
        if not self._accepting:
            self.metrics.refused += 1
            raise Unavailable("the service takes no requests: it is not started, is shutting down, or has failed")
        waiting = len(self._scheduler.queue)
        if waiting >= self.settings.max_queued:
            self.metrics.refused += 1
            raise Overloaded(f"{waiting} requests are waiting, and no more may; try again later")

    def status(self) -> ServiceStatus:
        """How things are right now."""
        with self._changed:
            scheduler, thread = self._scheduler, self._thread
            return ServiceStatus(
                alive=thread is not None and thread.is_alive(),
                accepting=self._accepting,
                running=len(scheduler.running),
                queued=len(scheduler.queue),
                columns_used=scheduler.memory.pool.used,
                columns_total=scheduler.memory.pool.total,
                prefix_used=scheduler.memory.prefixes.used,
                prefix_total=scheduler.memory.prefixes.total,
                kv_bytes=scheduler.memory.num_bytes,
                pass_s=0.0 if self._pass_began is None else time.monotonic() - self._pass_began,
                metrics=replace(self.metrics),
            )

    def drain(self, timeout_s: float) -> bool:
        """Refuse new work and wait for what there is; False if it took longer than `timeout_s`."""
        with self._changed:
            self._draining, self._accepting = self._draining or self._accepting, False
            return self._changed.wait_for(lambda: not self._scheduler.busy, timeout_s)

    def stop(self) -> None:
        """End at once, or behind the running pass: whatever is not answered fails with Unavailable."""
        with self._changed:
            self._accepting, self._draining, self._stopping = False, False, True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        """The engine's thread."""
        while True:
            try:
                self._work()
            except BaseException as error:  # whatever it was, nobody may wait for ever
                _log.exception("the engine failed")
                if not self._recover(error):
                    return
            else:
                return

    def _work(self) -> None:
        """Pass after pass until the service stops."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._scheduler.busy)
                if self._stopping:
                    self._scheduler.reset(lambda: Unavailable("the service was stopped"))
                    return
                batch = self._scheduler.prepare()
                begun = self._pass_began = time.monotonic()
            events = self._scheduler.engine.step(batch) if batch else []
            with self._changed:
                self._pass_began = None
                if batch:
                    self.metrics.busy_s += time.monotonic() - begun
                    self._scheduler.settle(batch, events)
                self._changed.notify_all()

    def _recover(self, cause: BaseException) -> bool:
        """Fail everybody; begin anew with empty storages if that is allowed."""

        def failed() -> ServingError:
            error = EngineFailed(f"the engine failed ({type(cause).__name__}); send the request again")
            error.__cause__ = cause
            return error

        with self._changed:
            self._pass_began = None
            metrics = self.metrics
            metrics.engine_failures += 1
            self._failures = 1 if metrics.finished > self._finished_before else self._failures + 1
            self._finished_before = metrics.finished
            metrics.failed += self._scheduler.reset(failed)
            going_on = self._failures <= self.settings.restarts
            self._accepting = self._accepting and going_on
            self._draining = self._draining and going_on
            self._changed.notify_all()
        return going_on
