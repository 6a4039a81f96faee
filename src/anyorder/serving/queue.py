"""Whose turn it is: the earliest due first, where a lower priority is due later."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator

from anyorder.serving.job import Job


def order(job: Job) -> tuple[float, int]:
    """The key of fairness. A `realtime` job is due when it comes, a patient one some seconds later, so the urgent go
    first, and yet everybody is overtaken by those only that came within its patience: nobody starves."""
    return job.due, job.number


class FairQueue:
    """Jobs that wait for room, in their order."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def push(self, job: Job) -> None:
        """Let a job wait."""
        insort(self._jobs, job, key=order)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    @property
    def first(self) -> Job | None:
        """Whose turn it is."""
        return self._jobs[0] if self._jobs else None

    def pop(self) -> Job:
        """Take the first one out."""
        return self._jobs.pop(0)

    def take(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take those out that wait in vain."""
        taken = [job for job in self._jobs if unwanted(job)]
        if taken:
            self._jobs = [job for job in self._jobs if job not in taken]
        return taken
