"""Who gives its memory to a more urgent job, and reads again later what it had."""

from __future__ import annotations

from collections.abc import Iterable

from anyorder.serving.job import Job
from anyorder.serving.memory import KVMemory
from anyorder.serving.queue import order
from anyorder.serving.work import Work


def can_be_evicted(job: Job) -> bool:
    """True if what a job has stored follows from its tokens alone, so that computing it again changes nothing.

    Not so where columns of an unfinished block or canvas are kept from an earlier pass, before its last commits.
    """
    return job.lease is not None and job.prefix is not None and job.params.cache == "block" and _is_decoded(job)


def _is_decoded(job: Job) -> bool:
    return isinstance(job.work, Work)  # a text to be scored keeps its place: nobody waits for its first piece


def victims(job: Job, running: Iterable[Job], memory: KVMemory) -> list[Job]:
    """The most patient jobs without whose columns `job` would fit, none of them in vain; [] if that is not enough."""
    patient = [other for other in running if order(other) > order(job) and can_be_evicted(other)]
    chosen: list[Job] = []
    for other in sorted(patient, key=order, reverse=True):
        chosen.append(other)
        if memory.fits(job, chosen):
            return _needed(job, chosen, memory)
    return []


def _needed(job: Job, chosen: list[Job], memory: KVMemory) -> list[Job]:
    """Without those whose columns lie elsewhere; the least patient are spared first."""
    for other in chosen[::-1]:
        spared = [each for each in chosen if each is not other]
        if memory.fits(job, spared):
            chosen = spared
    return chosen
