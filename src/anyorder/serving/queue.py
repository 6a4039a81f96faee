"""Whose turn it is: the earliest due first, where a lower priority is due later; clients of one priority in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anyorder.serving.job import Job
from anyorder.serving.work import Priority


def order(job: Job) -> tuple[float, int, int]:
    """The key of fairness. A `realtime` job is due when it comes, a patient one some seconds later, so the urgent go
    first, and yet everybody is overtaken by those only that came within its patience: nobody starves."""
    return job.due, job.turn, job.number


class FairQueue:
    """Jobs that wait for room.

    The priority goes first whose earliest job is due first. Within it clients, told apart by the salt of their work,
    take turns: the n-th job that a client has waiting goes in the n-th round from now, however many jobs of others
    came before it. So a job is overtaken, among its like, by one job per round of every other client at most.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._round: dict[Priority, int] = {}  # turn of the job that was taken last
        self._taken: dict[tuple[Priority, str], int] = {}  # client -> its last turn, where that is of this round

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs)

    def push(self, job: Job) -> None:
        """Let a job wait, behind those of its client."""
        line = _line(job)
        turns = [other.turn for other in self._jobs if _line(other) == line]
        job.turn = max(*turns, self._taken.get(line, -1), self._round.get(line[0], 0) - 1) + 1
        self._jobs.append(job)

    def put_back(self, job: Job) -> None:
        """Let a job wait again that had its turn: it goes first of those like it."""
        self._jobs.append(job)

    @property
    def first(self) -> Job | None:
        """Whose turn it is. It goes in place of the one of its priority that was due first, and is due like that."""
        if not self._jobs:
            return None
        earliest = min(self._jobs, key=order)
        like = (job for job in self._jobs if job.work.priority == earliest.work.priority)
        first = min(like, key=lambda job: (job.turn, job.due, job.number))
        first.due = min(first.due, earliest.due)
        return first

    def pop(self) -> Job:
        """Take the first one out."""
        job = self.first
        assert job is not None, "nobody waits"
        self._jobs.remove(job)
        priority, _ = line = _line(job)
        self._round[priority] = max(job.turn, self._round.get(priority, 0))
        self._taken[line] = job.turn
        self._taken = {other: turn for other, turn in self._taken.items() if turn >= self._round[other[0]]}
        return job

    def take(self, unwanted: Callable[[Job], bool]) -> list[Job]:
        """Take those out that wait in vain."""
        taken = [job for job in self._jobs if unwanted(job)]
        if taken:
            self._jobs = [job for job in self._jobs if job not in taken]
        return taken


def _line(job: Job) -> tuple[Priority, str]:
    """Where a job lines up: with those of its priority and client."""
    return job.work.priority, job.work.salt
