"""A scheduler driven pass by pass, on a clock that only moves when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.serving.helpers import SMALL

from anyorder.events import Event
from anyorder.models.loaded import LoadedModel
from anyorder.serving import Metrics, ScoreWork, ServiceSettings, Ticket, Work
from anyorder.serving.job import Job, make_job
from anyorder.serving.scheduler import Scheduler
from anyorder.serving.score_job import make_score_job


class Steps:
    """What a service does, without its thread."""

    def __init__(self, model: LoadedModel, settings: ServiceSettings = SMALL) -> None:
        self.model = model
        self.now = 0.0
        self.scheduler = Scheduler(model, settings, Metrics(), lambda: self.now)
        self.jobs: list[Job] = []

    def submit(self, work: Work | ScoreWork) -> Ticket:
        job = self._job(work, self.scheduler.settings)
        self.scheduler.check(job)
        self.scheduler.queue.push(job)
        self.jobs.append(job)
        return job.ticket

    def _job(self, work: Work | ScoreWork, settings: ServiceSettings) -> Job:
        terms: dict[str, Any] = {
            "number": len(self.jobs),
            "now": self.now,
            "patience": settings.patience(work.priority),
        }
        if isinstance(work, ScoreWork):
            return make_score_job(self.model, work, settings=settings, **terms)
        return make_job(self.model, work, together=2, **terms)

    def step(self, passes: int = 1) -> None:
        for _ in range(passes):
            batch = self.scheduler.prepare()
            if batch:
                self.scheduler.settle(batch, self.scheduler.engine.step(batch))

    def run(self) -> None:
        """To the end of all that was submitted."""
        for _ in range(2000):
            if not self.scheduler.busy:
                return
            self.step()
        raise AssertionError("the scheduler does not come to an end")

    @property
    def used(self) -> int:
        return self.scheduler.memory.pool.used


def events_of(ticket: Ticket) -> list[Event]:
    """All that a closed ticket holds; raises how it failed."""
    assert ticket.closed
    return list(ticket)


def columns(model: LoadedModel, count: int, **changes: Any) -> ServiceSettings:
    """Settings with memory for `count` columns of running requests."""
    config = model.config
    column = 2 * config.num_layers * config.num_kv_heads * config.head_dim * model.dtype.itemsize
    return replace(ServiceSettings(kv_bytes=count * column, prefix_share=0.0), **changes)


def started(tickets: Sequence[Ticket]) -> list[bool]:
    return [ticket.timing.queued_s is not None for ticket in tickets]
